// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/apis/example"
)

func sharedPod(t *testing.T) (*example.Pod, *cachingObject) {
	t.Helper()
	pod := &example.Pod{
		TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "one", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"n": "0"},
		},
	}
	shared, err := share(pod)
	if err != nil {
		t.Fatal(err)
	}
	return pod, shared
}

// encoder writes the name and the labels, as many times as it is called.
type encoder struct {
	calls  atomic.Int32
	prefix string
}

func (e *encoder) encode(obj runtime.Object, w io.Writer) error {
	e.calls.Add(1)
	pod := obj.(*example.Pod)
	pod.Kind = "changed while it is encoded"
	_, err := fmt.Fprintf(w, "%s %s %v", e.prefix, pod.Name, pod.Labels)
	return err
}

func TestEncodedOncePerMediaType(t *testing.T) {
	g := NewWithT(t)
	pod, shared := sharedPod(t)
	before := pod.DeepCopy()
	const watchers = 50
	encoders := map[runtime.Identifier]*encoder{"json": {prefix: "json"}, "protobuf": {prefix: "protobuf"}}
	var all sync.WaitGroup
	var wrong atomic.Int32
	for range watchers {
		for id, e := range encoders {
			all.Go(func() {
				var plain bytes.Buffer
				spliced := runtime.NewSpliceBuffer()
				expected := string(id) + " one map[a:b]"
				if err := shared.CacheEncode(id, e.encode, &plain); err != nil || plain.String() != expected {
					wrong.Add(1)
				}
				if err := shared.CacheEncode(id, e.encode, spliced); err != nil || string(spliced.Bytes()) != expected {
					wrong.Add(1)
				}
			})
		}
	}
	all.Wait()
	g.Expect(wrong.Load()).To(BeZero())
	for id, e := range encoders {
		g.Expect(e.calls.Load()).To(BeEquivalentTo(1), "%s", id)
	}
	g.Expect(pod).To(Equal(before), "the encoder had a copy")
}

func TestEncodeFails(t *testing.T) {
	g := NewWithT(t)
	_, shared := sharedPod(t)
	failure, calls := errors.New("cannot encode"), 0
	fail := func(runtime.Object, io.Writer) error { calls++; return failure }
	for range 2 {
		g.Expect(shared.CacheEncode("json", fail, io.Discard)).To(MatchError(failure))
	}
	g.Expect(calls).To(Equal(1))
	g.Expect(shared.CacheEncode("protobuf", (&encoder{}).encode, io.Discard)).To(Succeed())
}

// TestSettersLeaveTheCacheAlone calls every setter, and looks at every getter.
func TestSettersLeaveTheCacheAlone(t *testing.T) {
	pod, before := &example.Pod{}, &example.Pod{}
	shared, err := share(pod)
	if err != nil {
		t.Fatal(err)
	}
	values := []reflect.Value{
		reflect.ValueOf("text"), reflect.ValueOf(types.UID("uid")), reflect.ValueOf(int64(7)), reflect.ValueOf(new(int64)),
		reflect.ValueOf(metav1.NewTime(time.Unix(1, 0))), reflect.ValueOf(&metav1.Time{Time: time.Unix(1, 0)}),
		reflect.ValueOf(map[string]string{"a": "b"}), reflect.ValueOf([]string{"a"}),
		reflect.ValueOf([]metav1.OwnerReference{{Name: "owner"}}), reflect.ValueOf([]metav1.ManagedFieldsEntry{{Manager: "manager"}}),
	}
	object := reflect.ValueOf(shared)
	setters := 0
	for i := range reflect.TypeFor[metav1.Object]().NumMethod() {
		name, ok := strings.CutPrefix(reflect.TypeFor[metav1.Object]().Method(i).Name, "Set")
		if !ok {
			continue
		}
		setters++
		set, get := object.MethodByName("Set"+name), object.MethodByName("Get"+name)
		for _, value := range values {
			if value.Type() == set.Type().In(0) {
				set.Call([]reflect.Value{value})
				if got := get.Call(nil)[0].Interface(); !reflect.DeepEqual(got, value.Interface()) {
					t.Errorf("Get%s returns %v after Set%s of %v", name, got, name, value)
				}
				value = reflect.Value{}
			}
		}
		if reflect.ValueOf(get.Call(nil)[0].Interface()).IsZero() {
			t.Errorf("there was no value for Set%s", name)
		}
	}
	if setters < 15 || !reflect.DeepEqual(pod, before) {
		t.Errorf("after %d setters the cached object is %+v", setters, pod)
	}
}

// TestKindOfCachingObject shows that the kind can be set without touching the cached object.
func TestKindOfCachingObject(t *testing.T) {
	g := NewWithT(t)
	pod, shared := sharedPod(t)
	other := schema.GroupVersionKind{Group: "g", Version: "v", Kind: "k"}
	kind := shared.GetObjectKind()
	g.Expect(kind.GroupVersionKind()).To(Equal(schema.GroupVersionKind{Version: "v1", Kind: "Pod"}))
	kind.SetGroupVersionKind(other)
	g.Expect(kind.GroupVersionKind()).To(Equal(other))
	g.Expect(shared.GetObject().GetObjectKind().GroupVersionKind()).To(Equal(other))
	g.Expect(pod.Kind).To(Equal("Pod"))
}

// TestSetterForgetsWhatWasEncoded encodes before and after a setter.
func TestSetterForgetsWhatWasEncoded(t *testing.T) {
	g := NewWithT(t)
	_, shared := sharedPod(t)
	var e encoder
	g.Expect(shared.CacheEncode("json", e.encode, io.Discard)).To(Succeed())
	shared.SetLabels(map[string]string{"c": "d"})
	var after bytes.Buffer
	g.Expect(shared.CacheEncode("json", e.encode, &after)).To(Succeed())
	g.Expect(after.String()).To(ContainSubstring("c:d"))
}

// TestObjectsAreTheCallersOwn changes what GetObject and DeepCopyObject return.
func TestObjectsAreTheCallersOwn(t *testing.T) {
	g := NewWithT(t)
	pod, shared := sharedPod(t)
	before := pod.DeepCopy()
	own := shared.GetObject().(*example.Pod)
	own.Labels["a"], own.Name = "changed", "changed"
	copied := shared.DeepCopyObject().(*cachingObject)
	copied.SetName("changed")
	copied.GetLabels()["a"] = "changed"
	g.Expect(pod).To(Equal(before))
	g.Expect(shared.GetObject()).To(Equal(before))
	g.Expect(shared.GetName()).To(Equal("one"))
}

// TestCachingObjectIsSafe has readers and writers at once, for the race detector.
func TestCachingObjectIsSafe(t *testing.T) {
	pod, shared := sharedPod(t)
	before := pod.DeepCopy()
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for range 50 {
				switch n % 4 {
				case 0:
					shared.SetAnnotations(map[string]string{"n": fmt.Sprint(n)})
				case 1:
					shared.GetObject().(*example.Pod).Annotations["n"] = "own"
				case 2:
					_ = shared.CacheEncode("json", (&encoder{}).encode, io.Discard)
				case 3:
					shared.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{Kind: fmt.Sprint(n, len(shared.GetAnnotations()))})
				}
			}
		})
	}
	all.Wait()
	NewWithT(t).Expect(pod).To(Equal(before))
}

func TestShareRefusesWhatHasNoMetadata(t *testing.T) {
	_, err := share(&metav1.Status{})
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("*v1.Status")))
}
