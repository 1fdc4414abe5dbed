// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat_test

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tarn-dev/tarn/internal/flat"
	"github.com/tarn-dev/tarn/internal/flat/dictionary"
)

type withLock struct {
	metav1.ObjectMeta
	Spec struct{ Guard sync.Mutex }
}

type withState struct {
	Spec struct{ state int }
}

type hidden struct{ Exported, hiddenToo string }

var _ = hidden{}.hiddenToo

type deep struct {
	Items []map[string]*struct{ Hook func() }
}

func TestTypesThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		obj          any
		path, reason string
	}{
		{withLock{}, "Spec.Guard._", "unexported"},
		{withState{}, "Spec.state", "unexported"},
		{struct{ hidden }{}, "hidden.hiddenToo", "unexported"},
		{deep{}, "Items.Hook", "func"},
		{struct{ C chan int }{}, "C", "chan"},
		{struct{ O runtime.Object }{}, "O", "interface"},
		{struct{ M map[float64]int }{}, "M", "no order"},
		{struct{ M map[any]int }{}, "M", "no order"},
		{struct{ L []struct{} }{}, "L", "without size"},
		{struct{ P uintptr }{}, "P", "uintptr"},
		{struct{ A *[math.MaxInt >> 30]byte }{}, "A", "too large"},
		{struct{ C complex128 }{}, "C", "complex"},
		{"text", "(the type itself)", "struct"},
	} {
		if c.reason == "too large" && math.MaxInt == math.MaxInt32 {
			continue // no type is
		}
		_, err := flat.For(reflect.TypeOf(c.obj))
		var unsupported *flat.UnsupportedError
		if !errors.As(err, &unsupported) {
			t.Errorf("%T: got %v, want an UnsupportedError", c.obj, err)
			continue
		}
		if !strings.HasPrefix(unsupported.Path, strings.TrimSuffix(c.path, "_")) || !strings.Contains(unsupported.Reason, c.reason) {
			t.Errorf("%T: path %q and reason %q, want %q and %q", c.obj, unsupported.Path, unsupported.Reason, c.path, c.reason)
		}
		if _, again := flat.For(reflect.PointerTo(reflect.TypeOf(c.obj))); again == nil {
			t.Errorf("%T: accepted when asked again", c.obj)
		}
	}
}

type ring struct{ Next *ring }

func TestObjectsThatAreRefused(t *testing.T) {
	circle := &ring{}
	circle.Next = circle
	endless := map[string]any{}
	endless["self"] = endless
	for name, obj := range map[string]any{
		"decoded RawExtension": &struct{ Raw runtime.RawExtension }{runtime.RawExtension{Object: &corev1.Pod{}}},
		"typed nil in it":      &struct{ Raw runtime.RawExtension }{runtime.RawExtension{Object: (*corev1.Pod)(nil)}},
		"int in content":       &struct{ V any }{int(3)},
		"struct in content":    &struct{ V any }{[]any{metav1.Time{}}},
		"contains itself":      circle,
		"endless content":      &struct{ V any }{endless},
		"beyond all bounds":    &struct{ L [][]byte }{slices.Repeat([][]byte{make([]byte, 1<<20)}, 300)},
	} {
		c := codecFor(t, reflect.TypeOf(obj))
		for range 2 { // an encoder that failed must be good for the next object
			var value *flat.ValueError
			if _, err := c.Encode(obj, dictionary.New(dictionary.Limits{})); !errors.As(err, &value) || value.Reason == "" {
				t.Errorf("%s: got %v, want a ValueError", name, err)
			}
		}
	}
	c := codecFor(t, reflect.TypeFor[ring]())
	line := &ring{Next: &ring{}}
	if err := c.Verify(line, mustEncode(t, c, line, nil)); err != nil {
		t.Error(err)
	}
}

func TestWrongTypes(t *testing.T) {
	pods, nodes := podCodec(t), codecFor(t, reflect.TypeFor[corev1.Node]())
	o := mustEncode(t, pods, &corev1.Pod{}, nil)
	for name, err := range map[string]error{
		"object of another type": second(pods.Encode(&corev1.Node{}, nil)),
		"struct, not a pointer":  second(pods.Encode(corev1.Pod{}, nil)),
		"nil":                    second(pods.Encode(nil, nil)),
		"nil pointer":            second(pods.Encode((*corev1.Pod)(nil), nil)),
		"into another type":      pods.Decode(o, &corev1.Node{}),
		"with another codec":     nodes.Decode(o, &corev1.Node{}),
	} {
		if !errors.Is(err, flat.ErrWrongType) {
			t.Errorf("%s: got %v, want ErrWrongType", name, err)
		}
	}
	if err := pods.Decode(flat.Object{}, &corev1.Pod{}); !errors.Is(err, flat.ErrCorrupt) {
		t.Errorf("the zero Object: got %v, want ErrCorrupt", err)
	}
}

// TestTypesAreToldApart: no two of the types that a program begins to use one after the other have
// the same fingerprint.
func TestTypesAreToldApart(t *testing.T) {
	codecs, objects := make([]*flat.Codec, 100), make([]flat.Object, 100)
	for i := range codecs {
		typ := reflect.StructOf([]reflect.StructField{{Name: fmt.Sprint("Field", i), Type: reflect.TypeFor[string]()}})
		codecs[i] = codecFor(t, typ)
		objects[i] = mustEncode(t, codecs[i], reflect.New(typ).Interface(), nil)
	}
	for i, o := range objects {
		for j, c := range codecs {
			err := c.Decode(o, reflect.New(c.Type()).Interface())
			if i == j && err != nil || i != j && !errors.Is(err, flat.ErrWrongType) {
				t.Fatalf("an object of type %d with the codec of type %d: %v", i, j, err)
			}
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestVerifyFindsChanges(t *testing.T) {
	c, pod := podCodec(t), newCluster(1).pod(1)
	o := mustEncode(t, c, pod, nil)
	for path, change := range map[string]func(*corev1.Pod){
		"Pod.ObjectMeta.Labels[pod-template-hash]": func(p *corev1.Pod) { p.Labels["pod-template-hash"] = "x" },
		"Pod.Spec.Containers[1].Env[0].Value":      func(p *corev1.Pod) { p.Spec.Containers[1].Env[0].Value = "x" },
		"Pod.Spec.HostAliases":                     func(p *corev1.Pod) { p.Spec.HostAliases = []corev1.HostAlias{} },
		"Pod.Status.StartTime":                     func(p *corev1.Pod) { p.Status.StartTime = nil },
	} {
		changed := pod.DeepCopy()
		change(changed)
		var mismatch *flat.MismatchError
		if err := c.Verify(changed, o); !errors.As(err, &mismatch) || mismatch.Path != path {
			t.Errorf("got %v, want a difference at %s", err, path)
		}
	}
	if err := c.Verify(pod, o); err != nil {
		t.Error(err)
	}
}

func ExampleUnsupportedError() {
	type widget struct {
		Spec struct{ lock chan int }
	}
	_, err := flat.For(reflect.TypeFor[widget]())
	fmt.Println(err)
	// Output: flat: flat_test.widget has no flat form: Spec.lock: unexported field: what it means is unknown; keep its objects decoded
}
