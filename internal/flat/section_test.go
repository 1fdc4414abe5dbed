// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tarn-dev/tarn/internal/flat"
	"github.com/tarn-dev/tarn/internal/flat/dictionary"
)

// message is what the API server sends of obj.
func message(t testing.TB, obj any) []byte {
	t.Helper()
	b, err := obj.(interface{ Marshal() ([]byte, error) }).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// after encodes obj as an update of before, and checks that nothing is lost.
func after(t testing.TB, c *flat.Codec, obj any, d *dictionary.Dictionary, before flat.Object) flat.Object {
	t.Helper()
	b := message(t, obj)
	o, err := c.EncodeWireAfter(b, d, func(string, string) flat.Object { return before })
	if err != nil {
		t.Fatalf("%v: %v", c.Type(), err)
	}
	want := reflect.New(c.Type()).Interface()
	if err := want.(interface{ Unmarshal([]byte) error }).Unmarshal(b); err != nil {
		t.Fatal(err)
	}
	if err := c.Verify(want, o); err != nil {
		t.Fatalf("%v: %v", c.Type(), err)
	}
	return o
}

// known returns a dictionary that knows what several others like obj bring.
func known(t testing.TB, c *flat.Codec, obj runtime.Object) *dictionary.Dictionary {
	d := dictionary.New(dictionary.Limits{})
	for i := range 8 {
		like := obj.DeepCopyObject()
		like.(metav1.Object).SetUID(types.UID(fmt.Sprint("another ", i)))
		after(t, c, like, d, flat.Object{})
	}
	return d
}

// From the first update on, a section whose message is the same is copied. To see it, the section of
// the state before is replaced by that of another Pod.
func TestAnUpdateCopiesASection(t *testing.T) {
	g, c, pod := NewWithT(t), podCodec(t), newCluster(1).pod(1)
	d := known(t, c, pod)
	pod.Spec.NodeName = "a-node-of-its-own"
	created := after(t, c, pod, d, flat.Object{})
	sections := flat.Copies(created)
	g.Expect(sections).To(HaveLen(2), "spec and status")

	data := flat.Bytes(created)
	node := bytes.Index(data, []byte(pod.Spec.NodeName))
	g.Expect(node).To(And(BeNumerically(">", sections[0][0]), BeNumerically("<", sections[0][1])))
	data[node] ^= 1
	pod.Status.Message = "changed"
	update := func(of flat.Object) *corev1.Pod {
		o, err := c.EncodeWireAfter(message(t, pod), d, func(string, string) flat.Object { return of })
		g.Expect(err).NotTo(HaveOccurred())
		return decoded(t, c, o).(*corev1.Pod)
	}
	g.Expect(update(flat.FromBytes(data, d)).Spec.NodeName).NotTo(Equal(pod.Spec.NodeName))
	g.Expect(update(created).Status.Message).To(Equal("changed"))
	pod.Spec.Hostname = "changed"
	g.Expect(update(flat.FromBytes(data, d)).Spec).To(Equal(pod.Spec), "it is not the same message")
	pod.Spec.Hostname = ""
	g.Expect(update(flat.FromBytes(data, nil)).Spec).To(Equal(pod.Spec), "it is of another dictionary")
}

// What an object takes says how much the table takes: 40 bytes at most, and none in a small object that
// is never updated.
func TestATableOfSectionsIsSmallAndCounted(t *testing.T) {
	g, c, cl, d := NewWithT(t), podCodec(t), newCluster(1), dictionary.New(dictionary.Limits{})
	for i := range 500 {
		o := after(t, c, cl.pod(i), d, flat.Object{})
		if i >= 100 { // the dictionary has what a section needs
			g.Expect(flat.TableSize(o)).To(And(BeNumerically(">", 0), BeNumerically("<=", 40)))
			g.Expect(o.Size()).To(Equal(len(flat.Bytes(o))))
		}
	}
	small := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "small"}, Status: corev1.PodStatus{Message: text(1, 900)}}
	o := after(t, c, small, d, flat.Object{})
	g.Expect(flat.Copies(o)).To(BeEmpty())
	g.Expect(flat.Copies(after(t, c, small, d, o))).To(HaveLen(1))
}

// The old object of an update shares a section that has not changed, strings too, and no room to grow.
func TestAnEqualSectionIsSharedWhole(t *testing.T) {
	g, c, pod := NewWithT(t), podCodec(t), newCluster(1).pod(1)
	d := known(t, c, pod)
	pod.Spec.NodeName = "a-node-of-its-own"
	old := after(t, c, pod, d, flat.Object{})
	pod.Status.Message = "changed"
	o := after(t, c, pod, d, old)
	like, got := decoded(t, c, o).(*corev1.Pod), new(corev1.Pod)
	like.Spec.Containers = slices.Grow(like.Spec.Containers, 1)
	g.Expect(c.DecodeReusing(old, got, o, like)).To(Succeed())
	g.Expect(c.Verify(got, old)).To(Succeed())
	g.Expect(unsafe.StringData(got.Spec.NodeName)).To(BeIdenticalTo(unsafe.StringData(like.Spec.NodeName)))
	g.Expect(&got.Spec.Containers[0]).To(BeIdenticalTo(&like.Spec.Containers[0]))
	g.Expect(got.Spec.Containers).To(HaveCap(len(like.Spec.Containers)))
	g.Expect(got.Status.Message).To(BeEmpty())
}

// Previous is told the name, and may know nothing.
func TestAnUpdateAsksForTheObjectOfItsName(t *testing.T) {
	g, c, pod := NewWithT(t), podCodec(t), newCluster(1).pod(1)
	asked := ""
	_, err := c.EncodeWireAfter(message(t, pod), nil, func(namespace, name string) flat.Object {
		asked += strings.Clone(namespace + "/" + name)
		return flat.Object{}
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(asked).To(Equal(pod.Namespace + "/" + pod.Name))
}

// A section is known by its field, not by where it stands: a bool before it takes no bytes.
func TestASectionBehindABoolThatChanges(t *testing.T) {
	c, d := codecFor(t, reflect.TypeFor[corev1.Node]()), dictionary.New(dictionary.Limits{})
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	for i := range 20 {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: "Ready", Reason: fmt.Sprint("reason ", i), Message: text(i, 20)})
	}
	o := after(t, c, node, d, after(t, c, node, d, flat.Object{}))
	for i := range 6 {
		node.Spec.Unschedulable = i%2 == 0
		o = after(t, c, node, d, o)
	}
	NewWithT(t).Expect(flat.Copies(o)).To(HaveLen(1))
}

// Two fields of different types may have the same message. Field 3 is the restartPolicy of a spec and
// the message of a status, and field 100 is unknown to both.
func TestASectionIsNotThatOfAnotherField(t *testing.T) {
	g, c, d := NewWithT(t), podCodec(t), dictionary.New(dictionary.Limits{})
	value := func(text string) []byte {
		b := append([]byte{3<<3 | 2, byte(len(text))}, text...)
		return append(append(b, 0xa2, 0x06, 0xd8, 0x04), make([]byte, 600)...)
	}
	pod := func(spec, status string) []byte {
		var b []byte
		for n, v := range [][]byte{value(spec), value(status)} {
			b = append(append(b, byte(n+2)<<3|2), 0, 0)
			binary.PutUvarint(b[len(b)-2:], uint64(len(v)))
			b = append(b, v...)
		}
		return b
	}
	var o flat.Object
	for _, of := range [][2]string{{"a text", "another"}, {"a text", "another"}, {"another", "a text"}, {"a text", "a text"}} {
		b := pod(of[0], of[1])
		want := new(corev1.Pod)
		g.Expect(want.Unmarshal(b)).To(Succeed())
		g.Expect(string(want.Spec.RestartPolicy) + want.Status.Message).To(Equal(of[0] + of[1]))
		var err error
		was := o
		o, err = c.EncodeWireAfter(b, d, func(string, string) flat.Object { return was })
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(c.Verify(want, o)).To(Succeed())
	}
	g.Expect(flat.Copies(o)).To(HaveLen(2))
}

// An object that grows over the size from which it has parts has no table, and gets one when it shrinks.
func TestASectionOfAnObjectThatGrowsAndShrinks(t *testing.T) {
	g, c, pod := NewWithT(t), podCodec(t), newCluster(1).pod(1)
	d := known(t, c, pod)
	o := after(t, c, pod, d, after(t, c, pod, d, flat.Object{}))
	tables, split := 0, 0
	for _, by := range []int{0, 2000, 2200, 2400, 2600, 2800, 3000, 3100, 3200, 3300, 3400, 3500, 3600, 8000, 100, 0, 0, 0} {
		pod.Annotations["large"] = text(by, by)
		o = after(t, c, pod, d, o)
		if flat.Parts(o) != nil {
			split++
			g.Expect(flat.Copies(o)).To(BeEmpty())
		} else if len(flat.Copies(o)) > 0 {
			tables++
		}
	}
	g.Expect(tables).To(BeNumerically(">", 0))
	g.Expect(split).To(BeNumerically(">", 0))
	g.Expect(flat.Copies(o)).To(HaveLen(2))
}

// An object without a table is read beside one whose table has another section at the same place.
func TestAnObjectWithoutATableBesideOneWithATable(t *testing.T) {
	g, c := NewWithT(t), podCodec(t)
	with := &corev1.Pod{Spec: corev1.PodSpec{NodeName: text(1, 600)}, Status: corev1.PodStatus{Message: text(2, 900)}}
	without := &corev1.Pod{Status: with.Status}
	d := dictionary.New(dictionary.Limits{})
	o, other := after(t, c, without, d, flat.Object{}), after(t, c, with, d, flat.Object{})
	g.Expect(flat.Copies(o)).To(BeEmpty())
	g.Expect(flat.Copies(other)).NotTo(BeEmpty())
	got := &corev1.Pod{}
	g.Expect(c.DecodeReusing(o, got, other, with)).To(Succeed())
	g.Expect(got).To(Equal(without))
}

// states plays random updates of an object. Each may be encoded after any state of a moment ago.
type states struct {
	codec *flat.Codec
	dict  *dictionary.Dictionary
	fill  *filler
	r     *rand.Rand
	past  []state
}

type state struct {
	object any
	flat   flat.Object
}

// step changes the object and encodes it, unless no API server sends what became of it. It says whether
// a later update may copy of it.
func (s *states) step(t testing.TB) bool {
	before, from := state{}, state{}
	if n := len(s.past); n > 0 {
		before, from = s.past[n-1-s.r.Intn(min(n, 4))], s.past[n-1]
		if s.r.Intn(10) == 0 {
			from = s.past[s.r.Intn(n)] // it comes back to what it was
		}
	}
	if s.r.Intn(10) == 0 {
		s.dict = dictionary.New(dictionary.Limits{})
	}
	obj := s.changed(t, from)
	b, err := obj.(interface{ Marshal() ([]byte, error) }).Marshal()
	if err != nil {
		return false
	}
	o, err := s.codec.EncodeWireAfter(b, s.dict, func(string, string) flat.Object { return before.flat })
	if err != nil {
		return false
	}
	now := state{reflect.New(s.codec.Type()).Interface(), o}
	if err := now.object.(interface{ Unmarshal([]byte) error }).Unmarshal(b); err != nil {
		t.Fatal(err)
	}
	s.check(t, now, before)
	s.past = append(s.past, now)
	return len(flat.Copies(o)) > 0
}

// changed returns an object that differs from a state, mostly at one place. What upstream generates to
// copy a CustomResourceDefinition shares memory, so the copy is read from the flat form.
func (s *states) changed(t testing.TB, from state) any {
	if from.object == nil {
		obj := reflect.New(s.codec.Type()).Interface()
		s.fill.Fill(obj)
		return obj
	}
	obj := decoded(t, s.codec, from.flat)
	root := reflect.ValueOf(obj).Elem()
	field := root.Field(s.r.Intn(root.NumField()))
	switch s.r.Intn(8) {
	case 0:
		s.fill.Fill(field.Addr().Interface())
	case 1:
		field.SetZero()
	case 2:
		n := s.r.Intn(6000)
		obj.(metav1.Object).SetAnnotations(map[string]string{"large": text(n, n)})
	case 3:
		obj.(metav1.Object).SetAnnotations(nil)
	case 4:
	default:
		changeOne(root, s.r)
	}
	return obj
}

// check compares what is read of a state with the state, alone and beside another.
func (s *states) check(t testing.TB, now, before state) {
	t.Helper()
	if err := s.codec.Verify(now.object, now.flat); err != nil {
		t.Fatalf("%v: %v", s.codec.Type(), err)
	}
	if before.object == nil {
		return
	}
	for _, pair := range [][2]state{{now, before}, {before, now}} {
		got := reflect.New(s.codec.Type()).Interface()
		if err := s.codec.DecodeReusing(pair[0].flat, got, pair[1].flat, pair[1].object); err != nil {
			t.Fatalf("%v: %v", s.codec.Type(), err)
		}
		if !reflect.DeepEqual(got, pair[0].object) {
			t.Fatalf("%v: read beside another state it is not what it is: %v", s.codec.Type(), s.codec.Verify(got, pair[0].flat))
		}
	}
}

// Random updates of every kind are what Unmarshal reads of their messages.
func TestRandomUpdatesOfEveryKind(t *testing.T) {
	seed := newSeed(t)
	fill, r, tables := newFiller(seed), rand.New(rand.NewSource(seed)), 0
	for _, typ := range kinds() {
		codec := codecFor(t, typ)
		if codec.SupportsWire() != nil {
			continue
		}
		for range similarRounds(t) {
			s := &states{codec: codec, dict: dictionary.New(dictionary.Limits{}), fill: fill, r: r}
			for range 12 {
				if s.step(t) {
					tables++
				}
			}
		}
	}
	if t.Logf("%d states had a table", tables); tables < 17*similarRounds(t) {
		t.Error("updates hardly ever had something to copy")
	}
}

// FuzzSections plays random updates of Pods and of Deployments, whose template is a section.
func FuzzSections(f *testing.F) {
	for seed := range int64(8) {
		f.Add(seed, uint8(20))
	}
	f.Add(int64(510), uint8('z')) // a state without a table beside one with a table
	f.Fuzz(func(t *testing.T, seed int64, steps uint8) {
		r := rand.New(rand.NewSource(seed))
		pod := newCluster(uint64(seed)).pod(int(steps))
		obj := []any{pod, &appsv1.Deployment{ObjectMeta: pod.ObjectMeta, Spec: appsv1.DeploymentSpec{
			Template: corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec},
		}}}[r.Intn(2)]
		codec := codecFor(t, reflect.TypeOf(obj))
		s := &states{codec: codec, dict: known(t, codec, obj.(runtime.Object)), fill: newFiller(seed), r: r}
		s.past = []state{{obj, after(t, codec, obj, s.dict, flat.Object{})}}
		for range steps {
			s.step(t)
		}
	})
}

// A damaged state before leads to no panic, and to bytes that can be read or not.
func TestUpdatesOfADamagedObject(t *testing.T) {
	c, pod := podCodec(t), newCluster(1).pod(1)
	d := known(t, c, pod)
	o := after(t, c, pod, d, after(t, c, pod, d, flat.Object{}))
	before := pod.DeepCopy()
	pod.Status.StartTime = &metav1.Time{Time: time.Unix(1e9, 0)}
	b, data := message(t, pod), flat.Bytes(o)
	for n := 0; n < len(data); n += stride() {
		for _, with := range []byte{0, 0xff, data[n] ^ 1, data[n] ^ 0x80} {
			damaged := bytes.Clone(data)
			damaged[n] = with
			for _, bad := range [][]byte{damaged, damaged[:n]} {
				got, err := c.EncodeWireAfter(b, d, func(string, string) flat.Object { return flat.FromBytes(bad, d) })
				if err != nil {
					continue // it is said to take too much memory
				}
				for _, err := range []error{c.Decode(got, new(corev1.Pod)), c.DecodeReusing(got, new(corev1.Pod), o, before)} {
					if err != nil && !errors.Is(err, flat.ErrCorrupt) {
						t.Fatal(err)
					}
				}
			}
		}
	}
}
