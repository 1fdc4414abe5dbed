// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package object_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tarn-dev/tarn/internal/object"
)

// The types below have their metadata where a Go type may have them. None is a runtime.Object:
// to keep an object it is enough that meta.Accessor finds its metadata.

type Base struct {
	metav1.TypeMeta
	metav1.ObjectMeta
}

type base struct {
	metav1.TypeMeta
	metav1.ObjectMeta
}

type genericBase[Spec any] struct {
	metav1.ObjectMeta
	Spec Spec
}

type anyMeta = metav1.ObjectMeta

type (
	direct         struct{ metav1.ObjectMeta }
	exportedBase   struct{ Base }
	unexportedBase struct {
		Before string
		base
	}
	ofGenericBase struct{ genericBase[corev1.PodSpec] }
	ofAlias       struct {
		Before string
		anyMeta
	}
	deepBase struct {
		Before int
		unexportedBase
	}
	ofPod       struct{ corev1.Pod }
	pointer     struct{ *metav1.ObjectMeta }
	basePointer struct{ *Base }
	shadowed    struct {
		base
		metav1.ObjectMeta
	}
	shadowedByPointer struct {
		Base
		*metav1.ObjectMeta
	}
	wrapped struct{ unstructured.Unstructured }
)

// named has a field of the type, which is not embedded.
type named struct{ Meta metav1.ObjectMeta }

func (n *named) GetObjectMeta() metav1.Object { return &n.Meta }

// either has two of them, and says which.
type either struct {
	Base `json:"first"`
	base `json:"second"`
}

func (e *either) GetObjectMeta() metav1.Object { return &e.base.ObjectMeta }

// renamed embeds it, and has another name than it says.
type renamed struct{ metav1.ObjectMeta }

func (r *renamed) GetName() string { return "renamed-" + r.Name }

// relabelled has other labels than it says.
type relabelled struct{ metav1.ObjectMeta }

func (r *relabelled) GetLabels() map[string]string { return map[string]string{"of": r.Name} }

// finalized has other finalizers than it says.
type finalized struct{ metav1.ObjectMeta }

func (f *finalized) GetFinalizers() []string { return []string{"of " + f.Name} }

// elsewhere embeds metadata, and gives others.
type elsewhere struct {
	metav1.ObjectMeta
	Other metav1.ObjectMeta
}

func (e *elsewhere) GetName() string            { return e.Other.GetName() }
func (e *elsewhere) GetNamespace() string       { return e.Other.GetNamespace() }
func (e *elsewhere) GetResourceVersion() string { return e.Other.GetResourceVersion() }

// shouting sets other names than it is asked to.
type shouting struct{ metav1.ObjectMeta }

func (s *shouting) SetNamespace(namespace string) { s.Namespace = strings.ToUpper(namespace) }
func (s *shouting) SetName(name string)           { s.Name = strings.ToUpper(name) }
func (s *shouting) SetUID(uid types.UID)          { s.UID = uid + "!" }

func metadataOf(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "namespace", Name: name, ResourceVersion: "7", UID: "uid", Generation: 3,
		Labels: map[string]string{"a": name}, Annotations: map[string]string{"b": name}, Finalizers: []string{"c"},
	}
}

// TestTheMetadataOfWhatIsKept keeps objects whose metadata lie anywhere: a kept object has the
// metadata that meta.Accessor finds, whether it is flat or not.
func TestTheMetadataOfWhatIsKept(t *testing.T) {
	m := metadataOf("name")
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&metav1.PartialObjectMetadata{ObjectMeta: m})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for _, test := range []struct {
		obj    any
		flat   bool
		reason bool // why objects of the type cannot be flat
	}{
		{obj: &direct{m}, flat: true},
		{obj: &exportedBase{Base{ObjectMeta: m}}, flat: true},
		{obj: &unexportedBase{"before", base{ObjectMeta: m}}, flat: true},
		{obj: &ofGenericBase{genericBase[corev1.PodSpec]{m, corev1.PodSpec{NodeName: "node"}}}, flat: true},
		{obj: &ofAlias{"before", m}, flat: true},
		{obj: &deepBase{1, unexportedBase{"before", base{ObjectMeta: m}}}, flat: true},
		{obj: &ofPod{corev1.Pod{ObjectMeta: m}}, flat: true},
		{obj: &shadowed{base{ObjectMeta: metadataOf("other")}, m}, flat: true},
		{obj: &shouting{m}, flat: true},
		{obj: &unstructured.Unstructured{Object: content}, flat: true},
		{obj: &unstructured.Unstructured{Object: map[string]any{"metadata": "none"}}, flat: true},
		{obj: &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{
			"name": int64(1), "namespace": "n", "labels": map[string]any{"a": "b", "c": int64(2)},
		}}}, flat: true},
		{obj: &pointer{&m}, reason: true},
		{obj: &basePointer{&Base{ObjectMeta: m}}, reason: true},
		{obj: &shadowedByPointer{Base{ObjectMeta: metadataOf("other")}, &m}, reason: true},
		{obj: &named{m}, reason: true},
		{obj: &either{Base{ObjectMeta: metadataOf("other")}, base{ObjectMeta: m}}, reason: true},
		{obj: &wrapped{unstructured.Unstructured{Object: content}}, reason: true},
		{obj: &renamed{m}},
		{obj: &relabelled{m}},
		{obj: &finalized{m}},
		{obj: &elsewhere{metadataOf("other"), m}},
	} {
		t.Run(fmt.Sprintf("%T", test.obj), func(t *testing.T) {
			g := NewWithT(t)
			f := object.NewForm(object.Options{Type: reflect.TypeOf(test.obj), Verify: true})
			g.Expect(f.Reason() != nil).To(Equal(test.reason), "%v", f.Reason())
			source, err := meta.Accessor(test.obj)
			g.Expect(err).NotTo(HaveOccurred())
			kept := f.Keep(test.obj)
			g.Expect(kept.IsFlat()).To(Equal(test.flat))
			g.Expect([]string{kept.Namespace(), kept.Name(), kept.ResourceVersion()}).
				To(Equal([]string{source.GetNamespace(), source.GetName(), source.GetResourceVersion()}))
			sameLabels(g, kept, source.GetLabels())
			like, err := f.Materialize(kept)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(like).To(Equal(test.obj))
			g.Expect(f.MaterializeReusing(kept, f.Keep(like), like)).To(Equal(test.obj))
			if _, content := test.obj.(*unstructured.Unstructured); content {
				return // MetadataInto refuses what is no metadata, see package flat
			}
			got := metav1.ObjectMeta{}
			g.Expect(f.MetadataInto(kept, &got)).To(Succeed())
			g.Expect(got).To(Equal(meta.AsPartialObjectMetadata(source).ObjectMeta))
		})
	}
}

// TestEmptyMetadataAreKeptToo keeps an object whose metadata are not there.
func TestEmptyMetadataAreKeptToo(t *testing.T) {
	for _, obj := range []any{&direct{}, &renamed{}, &pointer{&metav1.ObjectMeta{}}} {
		g := NewWithT(t)
		f := object.NewForm(object.Options{Type: reflect.TypeOf(obj), Verify: true})
		source, err := meta.Accessor(obj)
		g.Expect(err).NotTo(HaveOccurred())
		kept := f.Keep(obj)
		g.Expect([]string{kept.Namespace(), kept.Name()}).To(Equal([]string{source.GetNamespace(), source.GetName()}))
	}
}
