// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat_test

import (
	"math/rand"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tarn-dev/tarn/internal/flat"
	"github.com/tarn-dev/tarn/internal/flat/dictionary"
	"github.com/tarn-dev/tarn/internal/variable"
)

// similar returns objects with which obj may be decoded: its equal, itself with a change at a
// random place, and another object.
func similar(obj runtime.Object, fill *filler, r *rand.Rand) map[string]any {
	changed, other := obj.DeepCopyObject(), reflect.New(reflect.TypeOf(obj).Elem()).Interface()
	changeOne(reflect.ValueOf(changed).Elem(), r)
	fill.Fill(other)
	return map[string]any{"its equal": obj.DeepCopyObject(), "a changed one": changed, "another": other, "nothing": reflect.New(reflect.TypeOf(obj).Elem()).Interface()}
}

// similarRounds is how often each kind is filled; TARN_FUZZ_ROUNDS asks for more.
func similarRounds(t *testing.T) int {
	return int(variable.Number(t, "TARN_FUZZ_ROUNDS", uint64(rounds())))
}

func TestEveryKindDecodesReusingAnother(t *testing.T) {
	seed := newSeed(t)
	fill, dict, r := newFiller(seed), dictionary.New(dictionary.Limits{}), rand.New(rand.NewSource(seed))
	var cases reusingCases
	for _, typ := range kinds() {
		codec := codecFor(t, typ)
		for range similarRounds(t) {
			obj := reflect.New(typ).Interface().(runtime.Object)
			fill.Fill(obj)
			for _, uid := range []types.UID{"one", "two", "three"} {
				if m, ok := obj.(metav1.Object); ok {
					m.SetUID(uid)
				}
				o := mustEncode(t, codec, obj, dict) // more and more of it is in the dictionary
				if uid == "two" {
					continue
				}
				for name, like := range similar(obj, fill, r) {
					cases.check(t, codec, o, like, dict, name)
				}
			}
		}
	}
	cases.expectMost(t)
}

// maxShared is how many cases with shared memory are enough to know that there are some.
const maxShared = 1000

// reusingCases counts cases, and those in which memory was shared.
type reusingCases struct{ all, shared int }

// expectMost fails if the tests do not reach what they should.
func (n *reusingCases) expectMost(t *testing.T) {
	t.Helper()
	t.Logf("%d cases, %d with shared memory", n.all, n.shared)
	if n.shared < min(n.all/10, maxShared) {
		t.Error("memory was hardly ever shared")
	}
}

// check compares what DecodeReusing gives with what Decode does.
func (n *reusingCases) check(t *testing.T, codec *flat.Codec, o flat.Object, like any, dict *dictionary.Dictionary, name string) {
	t.Helper()
	other, err := codec.Encode(like, dict)
	if err != nil {
		return // more time zones than a dictionary holds
	}
	want, got := reflect.New(codec.Type()).Interface(), reflect.New(codec.Type()).Interface()
	if err := codec.Decode(o, want); err != nil {
		t.Fatal(err)
	}
	if err := codec.DecodeReusing(o, got, other, like); err != nil {
		t.Fatalf("%v beside %s: %v", codec.Type(), name, err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%v: decoded beside %s is not what it is alone: %v", codec.Type(), name, codec.Verify(got, o))
	}
	if err := codec.Verify(got, o); err != nil {
		t.Fatal(err)
	}
	if err := codec.Verify(like, other); err != nil {
		t.Fatalf("%v: decoding beside %s changed that: %v", codec.Type(), name, err)
	}
	n.all++
	if n.shared < maxShared {
		mutate(reflect.ValueOf(got).Elem())
		if codec.Verify(like, other) != nil {
			n.shared++
		}
	}
}

func TestUnstructuredDecodesReusingAnother(t *testing.T) {
	seed := newSeed(t)
	r, d := rand.New(rand.NewSource(seed)), dictionary.New(dictionary.Limits{})
	c := codecFor(t, reflect.TypeFor[unstructured.Unstructured]())
	var cases reusingCases
	for range 300 * similarRounds(t) {
		u := &unstructured.Unstructured{Object: randomMap(r, 4)}
		if u.Object != nil && r.Intn(2) == 0 {
			u.Object["metadata"] = randomContent(r, 3)
		}
		o := mustEncode(t, c, u, d)
		changed := u.DeepCopy()
		changeOne(reflect.ValueOf(changed).Elem(), r)
		for name, like := range map[string]*unstructured.Unstructured{
			"its equal": u.DeepCopy(), "a changed one": changed, "another": {Object: randomMap(r, 4)}, "nothing": {},
		} {
			cases.check(t, c, o, like, d, name)
		}
	}
	cases.expectMost(t)
}

// everything with its awkward values, which DeepCopyObject does not know.
func TestEverythingDecodesReusingAnother(t *testing.T) {
	seed := newSeed(t)
	fill, d, r := newFiller(seed), dictionary.New(dictionary.Limits{}), rand.New(rand.NewSource(seed))
	fill.MaxDepth(9)
	c := codecFor(t, reflect.TypeFor[everything]())
	var cases reusingCases
	for range 100 * similarRounds(t) {
		e, other := &everything{}, &everything{}
		fill.Fill(e)
		fill.Fill(other)
		o := mustEncode(t, c, e, d)
		equal, changed := decoded(t, c, o), decoded(t, c, o)
		changeOne(reflect.ValueOf(changed).Elem(), r)
		for name, like := range map[string]any{"its equal": equal, "a changed one": changed, "another": other, "nothing": &everything{}} {
			cases.check(t, c, o, like, d, name)
		}
	}
	cases.expectMost(t)
}

// TestWhatIsEqualIsShared looks at the places of a Pod of which another version is decoded.
func TestWhatIsEqualIsShared(t *testing.T) {
	c, d, cl := podCodec(t), dictionary.New(dictionary.Limits{}), newCluster(3)
	for i := range 50 {
		mustEncode(t, c, cl.pod(i), d)
	}
	pod := wire(cl.pod(50))
	o := mustEncode(t, c, pod, d)
	stranger := mustEncode(t, c, pod, nil)
	like := pod.DeepCopy()
	like.ResourceVersion = strings.Repeat("9", len(like.ResourceVersion))
	like.Status.Conditions[len(like.Status.Conditions)-1].Message = "another"
	last := &like.Spec.Containers[len(like.Spec.Containers)-1]
	last.Image = "another"
	like.Labels["pod-template-hash"] = "another"
	like.ManagedFields = append(like.ManagedFields, metav1.ManagedFieldsEntry{})
	other := mustEncode(t, c, like, d)
	var got corev1.Pod
	if err := c.DecodeReusing(o, &got, other, like); err != nil || !reflect.DeepEqual(pod, &got) {
		t.Fatal(err, c.Verify(&got, o))
	}
	for name, same := range map[string]bool{
		"ownerReferences":     &got.OwnerReferences[0] == &like.OwnerReferences[0],
		"annotations":         reflect.ValueOf(got.Annotations).Pointer() == reflect.ValueOf(like.Annotations).Pointer(),
		"volumes":             &got.Spec.Volumes[0] == &like.Spec.Volumes[0],
		"containerStatuses":   &got.Status.ContainerStatuses[0] == &like.Status.ContainerStatuses[0],
		"startTime":           got.Status.StartTime == like.Status.StartTime,
		"ports of containers": &got.Spec.Containers[0].Ports[0] == &like.Spec.Containers[0].Ports[0],
		"time of a manager":   got.ManagedFields[0].Time == like.ManagedFields[0].Time,
	} {
		if !same {
			t.Errorf("%s: not shared", name)
		}
	}
	for name, same := range map[string]bool{
		"labels":        reflect.ValueOf(got.Labels).Pointer() == reflect.ValueOf(like.Labels).Pointer(),
		"containers":    &got.Spec.Containers[0] == &like.Spec.Containers[0],
		"conditions":    &got.Status.Conditions[0] == &like.Status.Conditions[0],
		"managedFields": &got.ManagedFields[0] == &like.ManagedFields[0],
	} {
		if same {
			t.Errorf("%s: shared although they differ", name)
		}
	}
	if s := got.OwnerReferences; cap(s) != len(s) {
		t.Error("who appends to one writes into the other")
	}
	if err := c.DecodeReusing(o, &got, o, &got); err != nil || !reflect.DeepEqual(pod, &got) {
		t.Errorf("beside itself: %v", err)
	}
	if err := c.DecodeReusing(o, &got, other, &corev1.Node{}); err == nil {
		t.Error("another type was accepted")
	}
	for _, none := range []flat.Object{{}, stranger, mustEncode(t, codecFor(t, reflect.TypeFor[corev1.Node]()), &corev1.Node{}, d)} {
		if err := c.DecodeReusing(o, &got, none, like); err != nil || !reflect.DeepEqual(pod, &got) {
			t.Errorf("beside what cannot be compared: %v", err)
		}
	}
}

// TestNestedDifferences checks that values next to the path of a difference are shared at every
// level, down to the depth to which values are compared.
func TestNestedDifferences(t *testing.T) {
	type level struct {
		Next *level
		Text []string
	}
	nest := func(text string) *level {
		l := &level{Text: []string{text}}
		for range 300 {
			l = &level{Next: l, Text: []string{"recurring", "text"}}
		}
		return l
	}
	c := codecFor(t, reflect.TypeFor[level]())
	one, other := nest("one"), nest("two")
	o := mustEncode(t, c, one, nil)
	var got level
	if err := c.DecodeReusing(o, &got, mustEncode(t, c, other, nil), other); err != nil || !reflect.DeepEqual(&got, one) {
		t.Fatal(err)
	}
	if &got.Text[0] != &other.Text[0] || &got.Next.Next.Text[0] != &other.Next.Next.Text[0] {
		t.Error("what is equal beside the difference is not shared")
	}
}
