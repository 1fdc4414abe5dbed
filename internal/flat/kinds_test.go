// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat_test

import (
	"reflect"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/tarn-dev/tarn/internal/flat"
	"github.com/tarn-dev/tarn/internal/flat/dictionary"
	"github.com/tarn-dev/tarn/internal/variable"
)

// kinds returns the types of all kinds that client-go and apiextensions know, in a fixed order.
func kinds() []reflect.Type {
	s := runtime.NewScheme()
	utilruntime.Must(scheme.AddToScheme(s))
	utilruntime.Must(apiextensionsv1.AddToScheme(s))
	utilruntime.Must(apiextensionsv1beta1.AddToScheme(s))
	utilruntime.Must(metav1.AddMetaToScheme(s))
	seen := map[reflect.Type]bool{}
	var out []reflect.Type
	for _, t := range s.AllKnownTypes() {
		// The unversioned WatchEvent of the internal version holds an interface.
		if !seen[t] && t != reflect.TypeFor[metav1.InternalEvent]() {
			seen[t] = true
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b reflect.Type) int {
		if a.String() < b.String() {
			return -1
		}
		return 1
	})
	return out
}

// rounds is how often each kind is filled. The race detector takes five times as long: it is for its check of unsafe pointers.
func rounds() int {
	if testing.Short() || variable.Detector {
		return 2
	}
	return 6
}

// stride is the distance between bytes that are damaged.
func stride() int {
	if variable.Detector {
		return 16
	}
	return 1
}

func TestEveryKindRoundTrips(t *testing.T) {
	all := kinds()
	if len(all) < 300 {
		t.Fatalf("only %d kinds: the schemes are not what they were", len(all))
	}
	fill, dict := newFiller(newSeed(t)), dictionary.New(dictionary.Limits{})
	for _, typ := range all {
		codec := codecFor(t, typ)
		for range rounds() {
			obj := reflect.New(typ).Interface().(runtime.Object)
			fill.Fill(obj)
			for _, uid := range []types.UID{"one", "two", "three"} {
				// What three objects share goes to the dictionary, the whole of it in the end.
				if m, ok := obj.(metav1.Object); ok {
					m.SetUID(uid)
				}
				roundTrip(t, codec, obj, dict, fill)
			}
		}
		roundTrip(t, codec, reflect.New(typ).Interface().(runtime.Object), dict, fill)
	}
	t.Logf("%d kinds, dictionary %+v", len(all), dict.Stats())
}

// roundTrip encodes obj and decodes it over a filled object.
func roundTrip(t *testing.T, codec *flat.Codec, obj runtime.Object, dict *dictionary.Dictionary, fill *filler) {
	t.Helper()
	want := obj.DeepCopyObject()
	for _, d := range []*dictionary.Dictionary{dict, nil} {
		o, err := codec.Encode(obj, d)
		if d == nil && err != nil {
			continue // a location that only a dictionary can keep
		}
		if err != nil {
			t.Fatalf("%v: %v", codec.Type(), err)
		}
		if err := codec.Verify(obj, o); err != nil {
			t.Fatal(err)
		}
		got := reflect.New(codec.Type()).Interface()
		fill.Fill(got)
		if err := codec.Decode(o, got); err != nil {
			t.Fatalf("%v: %v", codec.Type(), err)
		}
		if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(obj, want) {
			t.Fatalf("%v: decoded is not what a deep copy is", codec.Type())
		}
		if !apiequality.Semantic.DeepEqual(got, want) {
			t.Fatalf("%v: decoded is semantically not what a deep copy is", codec.Type())
		}
		metadataAgrees(t, o, obj)
	}
}

// metadataAgrees compares DecodeMetadata with the object.
func metadataAgrees(t *testing.T, o flat.Object, obj runtime.Object) {
	t.Helper()
	m, ok := obj.(metav1.ObjectMetaAccessor)
	if !ok {
		return
	}
	var got metav1.ObjectMeta
	got.Name = "to be overwritten"
	if err := o.DecodeMetadata(&got); err != nil {
		t.Fatal(err)
	}
	if want := m.GetObjectMeta(); !reflect.DeepEqual(&got, want) {
		t.Fatalf("%T: metadata alone is %+v, want %+v", obj, got, want)
	}
}

// TestCopiesShareNothing changes everything that can be reached from one materialized object of
// every kind and looks whether another one, or the flat form, has changed.
func TestCopiesShareNothing(t *testing.T) {
	fill, dict := newFiller(newSeed(t)), dictionary.New(dictionary.Limits{})
	changed := 0
	for _, typ := range kinds() {
		codec := codecFor(t, typ)
		obj := reflect.New(typ).Interface().(runtime.Object)
		fill.Fill(obj)
		var o flat.Object
		for _, uid := range []types.UID{"one", "two", "three"} {
			if m, ok := obj.(metav1.Object); ok {
				m.SetUID(uid)
			}
			o = mustEncode(t, codec, obj, dict)
		}
		want := obj.DeepCopyObject()
		first, second := reflect.New(typ), reflect.New(typ)
		for _, into := range []reflect.Value{first, second} {
			if err := codec.Decode(o, into.Interface()); err != nil {
				t.Fatal(err)
			}
		}
		changed += mutate(first.Elem())
		if !reflect.DeepEqual(second.Interface(), want) {
			t.Fatalf("%v: changing one copy changed another", typ)
		}
		if !reflect.DeepEqual(obj, want) {
			t.Fatalf("%v: changing a copy changed the source", typ)
		}
		if err := codec.Verify(obj, o); err != nil {
			t.Fatalf("changing a copy changed the flat form: %v", err)
		}
	}
	if changed < 10_000 {
		t.Fatalf("only %d places were changed: the test does not reach what it should", changed)
	}
}

func TestPodsShareNothing(t *testing.T) {
	cl, dict, codec := newCluster(5), dictionary.New(dictionary.Limits{}), podCodec(t)
	for i := range 300 {
		pod := cl.pod(i)
		o := mustEncode(t, codec, pod, dict)
		var first, meta = reflect.New(codec.Type()), reflect.New(reflect.TypeFor[metav1.ObjectMeta]())
		if err := codec.Decode(o, first.Interface()); err != nil {
			t.Fatal(err)
		}
		if err := o.DecodeMetadata(meta.Interface().(*metav1.ObjectMeta)); err != nil {
			t.Fatal(err)
		}
		mutate(first.Elem())
		mutate(meta.Elem())
		if err := codec.Verify(pod, o); err != nil {
			t.Fatal(err)
		}
	}
}
