// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat_test

import (
	"maps"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tarn-dev/tarn/internal/flat"
	"github.com/tarn-dev/tarn/internal/flat/dictionary"
)

// base is a struct that a CRD's Go type embeds, with its metadata inside.
type base struct {
	metav1.TypeMeta
	Notes []string
	metav1.ObjectMeta
}

type Common struct {
	base
	Extra int
}

type custom struct {
	First string
	Outer
	Last string
}

// Outer is embedded by custom, and embeds the metadata.
type Outer struct {
	A, B, C, D, E, F, G, H, I, J string
	metav1.ObjectMeta
	Z string
}

func TestMetadataWithoutMaterializing(t *testing.T) {
	meta := metav1.ObjectMeta{
		Namespace: "default", Name: "one", ResourceVersion: "42", UID: "u-1",
		Labels:      map[string]string{"app": "a", "empty": "", "tier": "gold"},
		Annotations: map[string]string{"note": "n"},
	}
	typed := &corev1.Pod{ObjectMeta: *meta.DeepCopy()}
	loose := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{
		"namespace": "default", "name": "one", "resourceVersion": "42", "uid": "u-1",
		"labels":      map[string]any{"app": "a", "empty": "", "tier": "gold"},
		"annotations": map[string]any{"note": "n"},
	}}}
	partial := &metav1.PartialObjectMetadata{ObjectMeta: *meta.DeepCopy()}
	embedded := &custom{Outer: Outer{ObjectMeta: *meta.DeepCopy(), Z: "z"}, Last: "l", First: "f"}
	behind := &Common{base: base{ObjectMeta: *meta.DeepCopy()}}
	for _, obj := range []any{typed, loose, partial, embedded, behind} {
		for _, d := range []*dictionary.Dictionary{nil, dictionary.New(dictionary.Limits{})} {
			c := codecFor(t, reflect.TypeOf(obj))
			o := mustEncode(t, c, obj, d)
			if err := c.Verify(obj, o); err != nil {
				t.Fatal(err)
			}
			if obj == any(behind) { // hidden behind an unexported type: no metadata, but all there
				continue
			}
			expectMetadata(t, o, meta)
		}
	}
}

func expectMetadata(t *testing.T, o flat.Object, want metav1.ObjectMeta) {
	t.Helper()
	if o.Namespace() != want.Namespace || o.Name() != want.Name || o.ResourceVersion() != want.ResourceVersion || o.UID() != string(want.UID) {
		t.Errorf("got %q %q %q %q", o.Namespace(), o.Name(), o.ResourceVersion(), o.UID())
	}
	if labels := maps.Collect(o.Labels()); !reflect.DeepEqual(labels, want.Labels) {
		t.Errorf("labels %v", labels)
	}
	if annotations := maps.Collect(o.Annotations()); !reflect.DeepEqual(annotations, want.Annotations) {
		t.Errorf("annotations %v", annotations)
	}
	for key, value := range want.Labels {
		if v, ok := o.Label(key); !ok || v != value {
			t.Errorf("label %s is %q, %v", key, v, ok)
		}
	}
	if v, ok := o.Label("absent"); ok || v != "" {
		t.Errorf("an absent label is %q", v)
	}
	if v, ok := o.Annotation("note"); !ok || v != "n" {
		t.Errorf("annotation is %q, %v", v, ok)
	}
	for range o.Labels() {
		break // stopping early must be possible
	}
	var got metav1.ObjectMeta
	if err := o.DecodeMetadata(&got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("metadata %+v, %v", got, err)
	}
}

func TestReadingMetadataAllocatesNothing(t *testing.T) {
	c, d := podCodec(t), dictionary.New(dictionary.Limits{})
	o := mustEncode(t, c, newCluster(1).pod(1), d)
	if n := testing.AllocsPerRun(100, func() {
		_, _ = o.Label("pod-template-hash")
		_, _, _ = o.Namespace(), o.Name(), o.ResourceVersion()
		for k := range o.Labels() {
			_ = k
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestObjectsWithoutMetadata(t *testing.T) {
	for _, obj := range []any{
		&corev1.PodList{Items: []corev1.Pod{{}}}, &metav1.Status{},
		&unstructured.Unstructured{}, &unstructured.Unstructured{Object: map[string]any{}},
		&unstructured.Unstructured{Object: map[string]any{"metadata": nil}},
		&unstructured.Unstructured{Object: map[string]any{"spec": nil}},
	} {
		c := codecFor(t, reflect.TypeOf(obj))
		o := mustEncode(t, c, obj, nil)
		if o.Name() != "" || o.Namespace() != "" || len(maps.Collect(o.Labels())) != 0 {
			t.Errorf("%T has metadata", obj)
		}
		if err := c.Verify(obj, o); err != nil {
			t.Error(err)
		}
	}
	if o := (flat.Object{}); o.Name() != "" || !o.IsZero() || o.Size() != 0 {
		t.Error("the zero Object holds something")
	}
}

func TestOddUnstructuredMetadata(t *testing.T) {
	c := codecFor(t, reflect.TypeFor[unstructured.Unstructured]())
	for _, meta := range []any{
		"text", int64(3), []any{}, map[string]any(nil), map[string]any{},
		map[string]any{"name": int64(1), "labels": "none", "annotations": map[string]any{"a": int64(1)}},
		map[string]any{"name": "n", "labels": map[string]any(nil), "annotations": map[string]any{}},
		map[string]any{"name": "n", "labels": map[string]any{"ok": "yes", "bad": true}},
	} {
		u := &unstructured.Unstructured{Object: map[string]any{"metadata": meta, "kind": "Odd"}}
		o := mustEncode(t, c, u, dictionary.New(dictionary.Limits{}))
		var got unstructured.Unstructured
		if err := c.Decode(o, &got); err != nil || !reflect.DeepEqual(&got, u) {
			t.Errorf("%v became %v, %v", u, got, err)
		}
	}
}

func TestUnstructuredPods(t *testing.T) {
	c, d, cl := codecFor(t, reflect.TypeFor[unstructured.Unstructured]()), dictionary.New(dictionary.Limits{}), newCluster(2)
	for i := range 200 {
		pod := cl.pod(i)
		u := content(pod)
		o := mustEncode(t, c, u, d)
		if err := c.Verify(u, o); err != nil {
			t.Fatal(err)
		}
		var meta metav1.ObjectMeta
		if err := o.DecodeMetadata(&meta); err != nil || meta.Name != pod.Name || len(meta.ManagedFields) != 3 {
			t.Fatalf("%+v, %v", meta, err)
		}
		var first unstructured.Unstructured
		if err := c.Decode(o, &first); err != nil {
			t.Fatal(err)
		}
		mutate(reflect.ValueOf(&first).Elem())
		if err := c.Verify(u, o); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAFewAllocations: a decoded Pod takes two for each map, which Go makes itself, and a few for all the rest.
func TestAFewAllocations(t *testing.T) {
	c, cl, d := podCodec(t), newCluster(1), dictionary.New(dictionary.Limits{})
	var o flat.Object
	for i := range 400 { // what has recurred is in the dictionary
		o = mustEncode(t, c, cl.pod(i), d)
	}
	into := new(corev1.Pod)
	n := testing.AllocsPerRun(100, func() {
		if err := c.Decode(o, into); err != nil {
			t.Fatal(err)
		}
	})
	theirs := testing.AllocsPerRun(100, func() { *new(corev1.Pod) = *into.DeepCopy() })
	inMaps := float64(countMaps(reflect.ValueOf(*into)))
	t.Logf("%v allocations for %v maps and the rest, a deep copy has %v", n, inMaps, theirs)
	if n > 2*inMaps+6 || inMaps == 0 {
		t.Errorf("%v allocations with %v maps", n, inMaps)
	}
}

func countMaps(v reflect.Value) (n int) {
	switch v.Kind() {
	case reflect.Map:
		if !v.IsNil() {
			n = 1
		}
	case reflect.Pointer:
		if !v.IsNil() {
			n = countMaps(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			n += countMaps(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			n += countMaps(v.Field(i))
		}
	}
	return n
}
