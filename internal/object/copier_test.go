// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package object_test

import (
	"reflect"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tarn-dev/tarn/internal/object"
)

// extended has corev1.Pod's DeepCopyInto promoted to it, which does not copy Extra.
type extended struct {
	corev1.Pod
	Extra []string
}

func (e *extended) DeepCopyObject() runtime.Object {
	return &extended{Pod: *e.DeepCopy(), Extra: slices.Clone(e.Extra)}
}

// manual has no DeepCopyInto at all.
type manual struct {
	metav1.TypeMeta
	Words []string
}

func (m *manual) DeepCopyObject() runtime.Object {
	return &manual{TypeMeta: m.TypeMeta, Words: slices.Clone(m.Words)}
}

func TestCopiers(t *testing.T) {
	for _, source := range []runtime.Object{
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{"a": "b"}}},
		&extended{Pod: corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, Extra: []string{"extra"}},
		&manual{Words: []string{"a", "b"}},
		&unstructured.Unstructured{Object: map[string]any{"a": []any{"b", int64(1)}}},
		&corev1.PodList{Items: []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "p"}}}},
	} {
		t.Run(reflect.TypeOf(source).String(), func(t *testing.T) {
			g := NewWithT(t)
			want := source.DeepCopyObject()
			into := reflect.New(reflect.TypeOf(source).Elem())
			for range 2 { // the second one is remembered
				object.CopierFor(reflect.TypeOf(source)).CopyInto(source, into)
				g.Expect(into.Interface()).To(Equal(want))
				g.Expect(spoil(into)).To(BeNumerically(">", 0))
				g.Expect(source).To(Equal(want))
			}
		})
	}
}
