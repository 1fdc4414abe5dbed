// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/object"
)

// declaredFields are what the Pods of a world are listed by; the second one has any number
// of values.
var declaredFields = map[string]client.IndexerFunc{
	"spec.nodeName": func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} },
	"containers": func(o client.Object) []string {
		var found []string
		for _, c := range o.(*corev1.Pod).Spec.Containers {
			found = append(found, c.Name)
		}
		return found
	},
}

// builtinFields need no declaration.
var builtinFields = map[string]client.IndexerFunc{
	"metadata.name":      func(o client.Object) []string { return []string{o.GetName()} },
	"metadata.namespace": func(o client.Object) []string { return []string{o.GetNamespace()} },
}

// world is the same random Pods in every store, and in a map.
type world struct {
	*rand.Rand
	*WithT
	fixtures map[string]fixture
	pods     map[string]*corev1.Pod
	version  int
}

func newWorld(t *testing.T) *world {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := &world{Rand: rand.New(rand.NewPCG(seed, 0)), WithT: NewWithT(t), fixtures: map[string]fixture{}, pods: map[string]*corev1.Pod{}}
	for name := range stores {
		w.fixtures[name] = pods(t, name)
	}
	return w
}

func (w *world) declare(field string) {
	for _, f := range w.fixtures {
		w.Expect(f.fields.Declare(f.store, field, declaredFields[field])).To(Succeed())
	}
}

func (w *world) of(word string, n int) string { return fmt.Sprint(word, w.IntN(n)) }

func (w *world) pod() *corev1.Pod {
	w.version++
	p := pod(w.of("ns", 4), w.of("pod", 150), w.version)
	p.Spec.NodeName = w.of("node", 9)[:4+w.IntN(2)] // "node" is one, too
	for range w.IntN(3) {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: w.of("c", 5)})
	}
	p.Labels = map[string]string{}
	for _, key := range []string{"app", "tier", "rare", "size", "name"} {
		switch {
		case w.IntN(4) == 0 || key == "rare" && w.IntN(20) > 0:
		case key == "size":
			p.Labels[key] = fmt.Sprint(w.IntN(10))
		case key == "name":
			p.Labels[key] = p.Name
		default:
			p.Labels[key] = w.of("v", 6)[:w.IntN(3)] // "" and "v" are, too
		}
	}
	return p
}

func key(o client.Object) string { return o.GetNamespace() + "/" + o.GetName() }

// write changes every store in the same way.
func (w *world) write() {
	p := w.pod()
	switch w.IntN(200) {
	case 0: // a relist: some have gone, some are new
		maps.DeleteFunc(w.pods, func(string, *corev1.Pod) bool { return w.IntN(5) == 0 })
		w.pods[key(p)] = p
		all := []client.Object{}
		for _, p := range w.pods {
			all = append(all, p)
		}
		for _, f := range w.fixtures {
			f.store.replace(all, w.version)
		}
		return
	case 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20:
		delete(w.pods, key(p))
		for _, f := range w.fixtures {
			f.store.remove(p)
		}
		return
	}
	w.pods[key(p)] = p
	for _, f := range w.fixtures {
		f.store.put(p)
	}
}

// requirement returns a random requirement on labels.
func (w *world) requirement() labels.Requirement {
	for {
		key := []string{"app", "tier", "rare", "size", "name", "none"}[w.IntN(6)]
		operators := []selection.Operator{
			selection.Equals, selection.DoubleEquals, selection.NotEquals, selection.In, selection.NotIn,
			selection.Exists, selection.DoesNotExist, selection.GreaterThan, selection.LessThan,
		}
		operator, values := operators[w.IntN(len(operators))], []string{}
		switch operator {
		case selection.Exists, selection.DoesNotExist:
		case selection.GreaterThan, selection.LessThan:
			key, values = "size", []string{fmt.Sprint(w.IntN(10))}
		case selection.In, selection.NotIn:
			for range 1 + w.IntN(4) {
				values = append(values, []string{w.of("v", 6), "v", "", w.of("pod", 150), w.of("", 10)}[w.IntN(5)])
			}
		default:
			values = []string{[]string{w.of("v", 6), "v", "", w.of("pod", 150), w.of("", 10)}[w.IntN(5)]}
		}
		if r, err := labels.NewRequirement(key, operator, values); err == nil {
			return *r
		}
	}
}

// options returns random options on the fields that are declared.
func (w *world) options(declared []string) *client.ListOptions {
	o := &client.ListOptions{}
	if w.IntN(3) == 0 {
		o.Namespace = w.of("ns", 5)
	}
	if w.IntN(3) > 0 {
		o.LabelSelector = labels.NewSelector()
		for range w.IntN(4) {
			o.LabelSelector = o.LabelSelector.Add(w.requirement())
		}
	}
	terms := []fields.Selector{}
	for range w.IntN(4) - 1 {
		all := append([]string{"metadata.name", "metadata.namespace"}, declared...)
		field := all[w.IntN(len(all))]
		value := map[string]string{
			"metadata.name": w.of("pod", 150), "metadata.namespace": w.of("ns", 4),
			"spec.nodeName": w.of("node", 9)[:4+w.IntN(2)], "containers": w.of("c", 5),
		}[field]
		if w.IntN(3) == 0 {
			terms = append(terms, fields.OneTermNotEqualSelector(field, value))
		} else {
			terms = append(terms, fields.OneTermEqualSelector(field, value))
		}
	}
	if len(terms) > 0 {
		o.FieldSelector = fields.AndSelectors(terms...)
	}
	if w.IntN(3) == 0 {
		o.Limit = 1 + w.Int64N(60)
	}
	return o
}

func selects(o *client.ListOptions, p *corev1.Pod) bool {
	if o.Namespace != "" && o.Namespace != p.Namespace || o.LabelSelector != nil && !o.LabelSelector.Matches(labels.Set(p.Labels)) {
		return false
	}
	if o.FieldSelector == nil {
		return true
	}
	for _, r := range o.FieldSelector.Requirements() {
		values := builtinFields[r.Field]
		if values == nil {
			values = declaredFields[r.Field]
		}
		if slices.Contains(values(p), r.Value) == (r.Operator == selection.NotEquals) {
			return false
		}
	}
	return true
}

// scan is the answer by looking at every Pod.
func (w *world) scan(o *client.ListOptions) (found []*corev1.Pod, more bool) {
	for _, p := range w.pods {
		if selects(o, p) {
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b *corev1.Pod) int {
		return strings.Compare(object.Key(a.Namespace, a.Name), object.Key(b.Namespace, b.Name))
	})
	if o.Limit > 0 && len(found) > int(o.Limit) {
		return found[:o.Limit], true
	}
	return found, false
}

// compare lists by o in every store.
func (w *world) compare(t *testing.T, o *client.ListOptions) {
	t.Helper()
	want, more := w.scan(o)
	for name, f := range w.fixtures {
		list := &corev1.PodList{}
		f.Expect(f.List(t.Context(), list, o)).To(Succeed())
		same := len(list.Items) == len(want)
		for i := 0; same && i < len(want); i++ {
			same = key(&list.Items[i]) == key(want[i]) && list.Items[i].ResourceVersion == want[i].ResourceVersion
		}
		if !same {
			t.Fatalf("%s: %d items, want %d, of %+v", name, len(list.Items), len(want), o)
		}
		if further := list.Continue != "" && list.Continue != "continue-not-supported"; further != more {
			t.Fatalf("%s: there is more: %t, want %t, of %+v", name, further, more, o)
		}
	}
}

// TestEveryStoreAnswersLikeAFullScan lists by random options while random changes happen,
// and fields are declared in the middle of it.
func TestEveryStoreAnswersLikeAFullScan(t *testing.T) {
	w := newWorld(t)
	for range 400 {
		w.write()
	}
	declared := []string{}
	for _, next := range []string{"", "spec.nodeName", "containers"} {
		if next != "" {
			w.declare(next)
			declared = append(declared, next)
		}
		for range 200 {
			w.compare(t, w.options(declared))
			for range w.IntN(8) {
				w.write()
			}
		}
		for _, name := range []string{"flat engine", "decoded engine"} {
			engine := w.fixtures[name].store.(engineStore)
			w.Expect(engine.engine.Check()).To(Succeed())
			w.Expect(engine.reader.LabelIndexes().Number).To(BeNumerically(">=", 5), "lists use indexes")
		}
	}
}
