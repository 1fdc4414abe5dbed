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

// codecFor returns the codec of a type. It is an error if the codec does not know where the
// metadata is.
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

// metadataAgree reports whether the metadata that the codec writes for obj equals the metadata that
// meta.Accessor returns, by which all other code knows the object. The two may differ if a type
// replaces a promoted method by its own.
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

// metadata returns the metadata of obj, an object of the type of the codec. It returns the
// ObjectMeta if the codec knows one, because a type may replace a promoted setter by its own.
func (f *Form) metadata(obj any) metav1.Object {
	if own := f.codec.Metadata(obj); own != nil {
		return own
	}
	return obj.(*unstructured.Unstructured)
}

// sameMetadata reports whether all methods of m return the values that own has. Maps, slices and
// pointers must be the same memory, because a comparison of their contents would take longer. With
// promoted methods, they are the same memory.
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
