// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"fmt"
	"reflect"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tarn-dev/tarn/internal/flat"
)

// codecFor returns the codec of a type whose metadata it knows.
func codecFor(t reflect.Type) (*flat.Codec, error) {
	codec, err := flat.For(t)
	if err != nil {
		return nil, err
	}
	content := t == reflect.TypeFor[*unstructured.Unstructured]()
	if !content && codec.Metadata(reflect.New(codec.Type()).Interface()) == nil {
		return nil, fmt.Errorf("%v does not embed one metav1.ObjectMeta by value, directly or in a struct that it embeds: its objects have no flat form", t)
	}
	return codec, nil
}

// metadataAgree reports whether what the codec takes for the metadata of obj are those that
// meta.Accessor finds, by which everybody else knows the object. Of a type that has methods of
// its own in place of promoted ones, they may be others.
func (f *Form) metadataAgree(obj any) bool {
	m, err := meta.Accessor(obj)
	if err != nil {
		return false
	}
	if _, content := obj.(*unstructured.Unstructured); content {
		return true // the codec reads them as the methods do
	}
	own := f.codec.Metadata(obj)
	return own != nil && sameMetadata(m, own)
}

// metadata returns the metadata of obj, which was made of a flat object or was kept as one, where
// the codec has them: a type may have a setter of its own in place of a promoted one.
func (f *Form) metadata(obj any) metav1.Object {
	if own := f.codec.Metadata(obj); own != nil {
		return own
	}
	return obj.(*unstructured.Unstructured)
}

// sameMetadata reports whether all methods of m return what own has. Of maps, slices and
// pointers it must be the same memory: to compare what they hold would take longer, and where
// methods are promoted it is.
func sameMetadata(m metav1.Object, own *metav1.ObjectMeta) bool {
	return m.GetNamespace() == own.Namespace && m.GetName() == own.Name && m.GetGenerateName() == own.GenerateName &&
		m.GetUID() == own.UID && m.GetResourceVersion() == own.ResourceVersion && m.GetGeneration() == own.Generation &&
		m.GetSelfLink() == own.GetSelfLink() && m.GetCreationTimestamp() == own.CreationTimestamp &&
		m.GetDeletionTimestamp() == own.DeletionTimestamp && m.GetDeletionGracePeriodSeconds() == own.DeletionGracePeriodSeconds &&
		sameMap(m.GetLabels(), own.Labels) && sameMap(m.GetAnnotations(), own.Annotations) &&
		sameSlice(m.GetFinalizers(), own.Finalizers) && sameSlice(m.GetOwnerReferences(), own.OwnerReferences) &&
		sameSlice(m.GetManagedFields(), own.ManagedFields)
}

func sameMap(a, b map[string]string) bool {
	return reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer()
}

func sameSlice[T any](a, b []T) bool {
	return len(a) == len(b) && unsafe.SliceData(a) == unsafe.SliceData(b)
}
