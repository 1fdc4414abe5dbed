// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/tarn-dev/tarn/internal/flat/decode"
	"github.com/tarn-dev/tarn/internal/flat/dictionary"
	"github.com/tarn-dev/tarn/internal/flat/form"
	"github.com/tarn-dev/tarn/internal/flat/plan"
	"github.com/tarn-dev/tarn/internal/flat/wire"
)

// pairOfEncoders writes each message twice: with an encoder that knows values, and with one that never does.
type pairOfEncoders struct {
	root       *plan.Root
	warm, cold *MessageEncoder
	sizes      [2]int // of all objects, cold and warm
	compared   int    // objects whose slabs were compared
}

// messagePlans are the plans of messages, each of which can be compiled once: *plan.Root -> *wire.Plan.
var messagePlans sync.Map

// encodersOf returns new encoders of T.
func encodersOf[T any](t *testing.T) *pairOfEncoders {
	t.Helper()
	root, err := plan.For(reflect.TypeFor[T]())
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	messages, ok := messagePlans.Load(root)
	if !ok {
		messages, err = wire.Compile(root)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		messagePlans.Store(root, messages)
	}
	p := &pairOfEncoders{root: root, warm: NewMessageEncoder(root, messages.(*wire.Plan)), cold: NewMessageEncoder(root, messages.(*wire.Plan))}
	p.warm.known.objects = firstKnown - 1 // the next object makes the table
	p.cold.known.objects = firstKnown
	return p
}

// both writes a message with each encoder and its dictionary, and checks that both have the object, and say the same of the memory of its
// decoder. It adds the sizes of what was written.
func (p *pairOfEncoders) both(t *testing.T, message []byte, warm, cold *dictionary.Dictionary) error {
	t.Helper()
	g := NewWithT(t)
	want, err := p.cold.Encode(message, cold, nil)
	got, err2 := p.warm.Encode(message, warm, nil)
	if err != nil {
		g.Expect(err2).To(MatchError(err.Error()))
		return err
	}
	g.Expect(err2).NotTo(HaveOccurred())
	g.Expect(p.decoded(t, got)).To(Equal(p.decoded(t, want)))
	p.sizes[0], p.sizes[1] = p.sizes[0]+want.Size(), p.sizes[1]+got.Size()
	a, b := &p.warm.needs, &p.cold.needs
	g.Expect(a.charged).To(Equal(b.charged))
	g.Expect(a.strings).To(Equal(b.strings))
	g.Expect(a.noscan).To(Equal(b.noscan))
	if none := (slabCount{}); a.slabs.counts[0] == none && b.slabs.counts[0] == none {
		g.Expect(a.slabs.counts).To(Equal(b.slabs.counts))
		p.compared++
	}
	return nil
}

func (p *pairOfEncoders) decoded(t *testing.T, o decode.Object) any {
	t.Helper()
	into := reflect.New(p.root.Type).Interface()
	NewWithT(t).Expect(decode.Decode(p.root, o, into, true)).To(Succeed())
	return into
}

// used is the number of places whose values were written more than once, as far as that is remembered.
func (k *known) used() (n int) {
	for i := range k.values {
		if k.values[i].used {
			n++
		}
	}
	return n
}

// podOfParts returns a Pod most of whose parts other Pods have too.
func podOfParts(r *rand.Rand, i int) *corev1.Pod {
	one := func(of string) string { return fmt.Sprintf("%s-%d", of, r.Intn(6)) }
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprintf("pod-%d", i), Namespace: one("namespace"), UID: types.UID(fmt.Sprintf("uid-of-%d", i)),
		Labels:          map[string]string{"app": one("app"), "tier": one("tier"), "version": one("version")},
		Annotations:     map[string]string{"one": one("note"), "own": fmt.Sprintf("own-%d", i)},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: one("set"), UID: types.UID(one("uid")), Controller: new(true)}},
		ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: one("manager"), Time: &metav1.Time{Time: time.Unix(int64(r.Intn(3)), 0)}}},
	}}
	for range 1 + r.Intn(20) {
		container := corev1.Container{
			Name: one("container"), Image: one("image"), Args: []string{one("--level"), one("--shard")},
			Ports: []corev1.ContainerPort{{Name: one("port"), ContainerPort: int32(r.Intn(4)), Protocol: corev1.ProtocolTCP}},
			Env: []corev1.EnvVar{
				{Name: "LEVEL", Value: one("level")},
				{Name: "ADDRESS", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: one("status")}}},
			},
			Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(fmt.Sprintf("%dm", 100+r.Intn(3)))}},
		}
		if r.Intn(2) == 0 {
			container.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: one("/ready"), Port: intstr.FromString(one("port"))}}}
			container.SecurityContext = &corev1.SecurityContext{RunAsNonRoot: new(r.Intn(2) == 0), RunAsUser: new(int64(r.Intn(3)))}
		}
		pod.Spec.Containers = append(pod.Spec.Containers, container)
	}
	pod.Spec.Tolerations = []corev1.Toleration{{Key: one("key"), Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(r.Intn(3)))}}
	return pod
}

// What an encoder knows changes neither the objects nor what their decoder is told, whatever dictionaries take turns.
func TestKnownValuesAreWhatWasWritten(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	r, g := rand.New(rand.NewSource(seed)), NewWithT(t)
	p := encodersOf[corev1.Pod](t)
	var dicts [2][]*dictionary.Dictionary // of the encoders; each has its own, so that neither profits from the other
	for i := range dicts {
		one := dictionary.New(dictionary.Limits{})
		dicts[i] = []*dictionary.Dictionary{one, one.Successor(), dictionary.New(dictionary.Limits{Entries: 40}), nil}
	}
	for i := range 400 {
		message, err := podOfParts(r, i).Marshal()
		g.Expect(err).NotTo(HaveOccurred())
		n := r.Intn(len(dicts[0]))
		g.Expect(p.both(t, message, dicts[0][n], dicts[1][n])).To(Succeed())
	}
	g.Expect(p.warm.known.used()).To(BeNumerically(">", 20), "values were written again")
	g.Expect(p.compared).To(BeNumerically(">", 20))
	g.Expect(p.sizes[1]).To(BeNumerically("<", p.sizes[0]*105/100), "the objects take no more room, but for chance")
	for n := range 2 {
		warm, cold := dicts[0][n].Stats(), dicts[1][n].Stats()
		g.Expect(warm.Bytes).To(BeNumerically("<", cold.Bytes*120/100), "nor do the dictionaries")
	}
}

// An encoder of a few objects makes no table.
func TestFewObjectsMakeNoTable(t *testing.T) {
	g, p := NewWithT(t), encodersOf[corev1.ConfigMap](t)
	p.warm.known.objects = 0
	for i := range firstKnown {
		g.Expect(p.warm.known.values).To(BeNil(), "%d objects", i)
		g.Expect(p.both(t, nil, nil, nil)).To(Succeed())
	}
	g.Expect(p.warm.known.values).To(HaveLen(knownValues))
}

// A value that is known makes no object deeper than it may be.
func TestKnownValuesAtAnyDepth(t *testing.T) {
	g, p := NewWithT(t), encodersOf[apiextensionsv1.CustomResourceDefinition](t)
	dict, other := dictionary.New(dictionary.Limits{}), dictionary.New(dictionary.Limits{})
	nested := func(levels, i int) []byte {
		schema := &apiextensionsv1.JSONSchemaProps{Description: "what stands at the end", Required: []string{"one", "another"}}
		for range levels {
			schema = &apiextensionsv1.JSONSchemaProps{Not: schema}
		}
		crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("crd-%d", i)}, Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: schema}}},
		}}
		message, err := crd.Marshal()
		g.Expect(err).NotTo(HaveOccurred())
		return message
	}
	refused := 0
	for i, levels := range []int{1, 1, 1, 1, 50, 50, 50, 90, 90, 90, 300, 300, 300, 490, 495, 496, 497, 498, 499, 500, form.MaxDepth} {
		if err := p.both(t, nested(levels, i), dict, other); err != nil {
			g.Expect(err.Error()).To(ContainSubstring("too deep"), "%d levels", levels)
			refused++
		}
	}
	g.Expect(refused).To(BeNumerically(">", 0))
	g.Expect(p.warm.known.used()).To(BeNumerically(">", 0))
}

// A place belongs to a value as long as it is asked for.
func TestAKnownValueThatIsUsedStays(t *testing.T) {
	g, p := NewWithT(t), encodersOf[corev1.Service](t)
	dict, other := dictionary.New(dictionary.Limits{}), dictionary.New(dictionary.Limits{})
	write := func(i int, label string) {
		message, err := (&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("service-%d", i), Labels: map[string]string{"of": label}}}).Marshal()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(p.both(t, message, dict, other)).To(Succeed())
	}
	for i := range 4 {
		write(i, "everything")
	}
	g.Expect(p.warm.known.used()).To(Equal(1))
	i := slices.IndexFunc(p.warm.known.values, func(v knownValue) bool { return v.used })
	place, hash := &p.warm.known.values[i], p.warm.known.values[i].hash
	wanted := 0 // by others
	for n := 4; wanted < 3 && n < 200*knownValues; n += 2 {
		write(n, fmt.Sprint("others-", n/8)) // four objects have each of them, and the fourth could find it
		g.Expect(place.hash).To(Equal(hash), "after %d others", n/2)
		if !place.used {
			wanted++
		}
		write(n+1, "everything")
	}
	g.Expect(wanted).To(Equal(3))
}
