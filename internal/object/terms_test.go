// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package object_test

import (
	"fmt"
	"reflect"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/object"
)

func values(f *object.Form, o object.Object, name string) []string {
	var found []string
	f.Values(o, name, func(value string) { found = append(found, value) })
	return found
}

func podForm() *object.Form {
	return object.NewForm(object.Options{Type: reflect.TypeFor[*corev1.Pod](), Verify: true})
}

func TestValuesOfDeclaredFields(t *testing.T) {
	for _, want := range [][]string{
		nil,
		{""},
		{"", ""},
		{"one"},
		{"one", "two", "one"},
		{"\x00", "\x01\x02", "\xff\xfe"},
		{strings.Repeat("long", 100), "", strings.Repeat("l", 127), strings.Repeat("l", 128)},
		{"ünïcode", "a/b", "=,"},
	} {
		t.Run(fmt.Sprintf("%.20q", want), func(t *testing.T) {
			g := NewWithT(t)
			f := podForm()
			f.Declare("before", func(client.Object) []string { return []string{"b", "c"} })
			f.Declare("field", func(client.Object) []string { return want })
			f.Declare("empty", func(client.Object) []string { return nil })
			f.Declare("after", func(client.Object) []string { return []string{"d"} })
			kept := f.Keep(&corev1.Pod{})
			g.Expect(values(f, kept, "field")).To(Equal(want))
			g.Expect(values(f, kept, "before")).To(Equal([]string{"b", "c"}))
			g.Expect(values(f, kept, "empty")).To(BeEmpty())
			g.Expect(values(f, kept, "after")).To(Equal([]string{"d"}))
			g.Expect(values(f, kept, "unknown")).To(BeEmpty())
			g.Expect(values(f, object.Object{}, "field")).To(BeEmpty())
			for _, name := range []string{"before", "field", "empty", "after", "unknown"} {
				for _, value := range append([]string{"b", "c", "d", "", "none"}, want...) {
					g.Expect(f.HasValue(kept, name, value)).To(Equal(slices.Contains(values(f, kept, name), value)), "%q of %s", value, name)
				}
			}
			g.Expect(f.HasValue(object.Object{}, "field", "")).To(BeFalse())
		})
	}
}

// TestAFunctionOfAFieldRunsForOneObjectAtATime, as in client-go.
func TestAFunctionOfAFieldRunsForOneObjectAtATime(t *testing.T) {
	g := NewWithT(t)
	f := podForm()
	var running atomic.Int32
	calls, together := 0, false
	f.Declare("field", func(client.Object) []string {
		together = together || running.Add(1) > 1
		calls++
		goruntime.Gosched()
		running.Add(-1)
		return nil
	})
	var keepers sync.WaitGroup
	for range 8 {
		keepers.Go(func() {
			for range 200 {
				f.Keep(&corev1.Pod{})
			}
		})
	}
	keepers.Wait()
	g.Expect(together).To(BeFalse())
	g.Expect(calls).To(Equal(1600))
}

func TestFieldsDeclaredLater(t *testing.T) {
	for _, f := range forms() {
		t.Run(f.name, func(t *testing.T) {
			g := NewWithT(t)
			obj := f.empty()
			obj.SetName("n")
			obj.SetNamespace("ns")
			first := f.Keep(obj)
			f.Declare("name", func(o client.Object) []string { return []string{o.GetName()} })
			g.Expect(values(f.Form, first, "name")).To(BeEmpty())
			second := f.Retell(first)
			g.Expect(values(f.Form, second, "name")).To(Equal([]string{"n"}))
			f.Declare("namespace", func(o client.Object) []string { return []string{o.GetNamespace()} })
			g.Expect(values(f.Form, second, "namespace")).To(BeEmpty())
			third := f.Retell(second)
			g.Expect(values(f.Form, third, "namespace")).To(Equal([]string{"ns"}))
			g.Expect(values(f.Form, third, "name")).To(Equal([]string{"n"}))
			g.Expect(values(f.Form, first, "name")).To(BeEmpty(), "what was kept before does not change")
			g.Expect(values(f.Form, f.Renew()(third), "namespace")).To(Equal([]string{"ns"}))
		})
	}
}

// TestValuesAgreeWithTheExtractors declares random fields and compares the values of
// random objects, some of them kept before the last fields were declared.
func TestValuesAgreeWithTheExtractors(t *testing.T) {
	random := newRandom(t)
	g := NewWithT(t)
	f := podForm()
	fields := map[string]client.IndexerFunc{}
	kept, sources := []object.Object{}, []client.Object{}
	for round := range 5 {
		for n := range random.IntN(3) {
			name, label := fmt.Sprint("field", round, n), fmt.Sprint("label", random.IntN(8))
			fields[name] = func(o client.Object) []string {
				if value, ok := o.GetLabels()[label]; ok {
					return []string{value, o.GetName()}[:1+len(o.GetName())%2]
				}
				return nil
			}
			f.Declare(name, fields[name])
		}
		for i, o := range kept {
			kept[i] = f.Retell(o)
		}
		for range 50 {
			obj := randomPod(random)
			sources, kept = append(sources, obj), append(kept, f.Keep(obj))
		}
		for i, o := range kept {
			for name, extract := range fields {
				g.Expect(values(f, o, name)).To(Equal(extract(sources[i])), "object %d, field %s", i, name)
			}
		}
	}
}

func TestValuesAllocateNothing(t *testing.T) {
	f := podForm()
	f.Declare("name", func(o client.Object) []string { return []string{o.GetName(), "other"} })
	kept, count := f.Keep(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}), 0
	NewWithT(t).Expect(testing.AllocsPerRun(100, func() {
		f.Values(kept, "name", func(string) { count++ })
	})).To(BeZero())
}

// TestUpdatesKeepAndChangeValues: the values of an update are compared with those of the state before, which may
// have those of other fields.
func TestUpdatesKeepAndChangeValues(t *testing.T) {
	g, f, kept := NewWithT(t), podForm(), object.Object{}
	for i, node := range []string{"a", "a", "b", "b", "", "a"} {
		message, err := (&corev1.Pod{Spec: corev1.PodSpec{NodeName: node}}).Marshal()
		g.Expect(err).NotTo(HaveOccurred())
		before, ok := kept, false
		kept, _, ok = f.KeepMessage(message, false, func(string, string) object.Object { return before })
		g.Expect(ok).To(BeTrue())
		for n := range i {
			g.Expect(values(f, kept, fmt.Sprint(n))).To(Equal([]string{node}))
		}
		if i != 3 {
			f.Declare(fmt.Sprint(i), func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} })
		} else {
			f.Undeclare("1")
			f.Declare("3", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} })
			f.Declare("1", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} })
		}
	}
}

// TestAFieldThatIsDeclaredWhileMessagesAreKept: whichever comes first, the object has the values of
// the field when it is in its store. The moment that matters is short, hence the many rounds.
func TestAFieldThatIsDeclaredWhileMessagesAreKept(t *testing.T) {
	g := NewWithT(t)
	message, err := (&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}).Marshal()
	g.Expect(err).NotTo(HaveOccurred())
	for range 2000 {
		f := object.NewForm(object.Options{Type: reflect.TypeFor[*corev1.ConfigMap]()})
		kept := make([]object.Object, 20)
		var keeping sync.WaitGroup
		keeping.Go(func() {
			for i := range kept {
				kept[i], _, _ = f.KeepMessage(message, false, nil)
			}
		})
		f.Declare("name", func(o client.Object) []string { return []string{o.GetName()} })
		keeping.Wait()
		for _, o := range kept {
			if got := values(f, f.Refresh(o), "name"); len(got) != 1 || got[0] != "a" {
				t.Fatalf("the values are %q", got)
			}
		}
	}
}
