// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package object_test

import (
	"reflect"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tarn-dev/tarn/internal/object"
)

// content returns a ConfigMap with a field that its Go type does not know.
func oddContent() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "one", "namespace": "ns", "labels": map[string]any{"a": "b"}, "resourceVersion": "7"},
		"data":     map[string]any{"k": "v"},
		"unknown":  []any{int64(1), "two"},
	}}
}

func TestViewsShowOneObjectInEachType(t *testing.T) {
	for name, decoded := range map[string]bool{"flat": false, "decoded": true} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			form := object.NewForm(object.Options{Type: reflect.TypeFor[*unstructured.Unstructured](), Decoded: decoded})
			kept := form.Keep(oddContent())
			typed, err := form.As(reflect.TypeFor[*corev1.ConfigMap]())
			g.Expect(err).NotTo(HaveOccurred())

			out := &corev1.ConfigMap{BinaryData: map[string][]byte{"left": nil}, Immutable: new(bool)}
			g.Expect(typed.CopyInto(kept, out)).To(Succeed())
			want := &corev1.ConfigMap{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
				ObjectMeta: metav1.ObjectMeta{Name: "one", Namespace: "ns", Labels: map[string]string{"a": "b"}, ResourceVersion: "7"},
				Data:       map[string]string{"k": "v"},
			}
			g.Expect(out).To(Equal(want), "nothing of what was in the caller's object is left")
			out.Labels["a"], out.Data["k"] = "changed", "changed"
			for _, read := range []func(object.Object) (any, error){
				typed.Materialize, typed.Shared, func(o object.Object) (any, error) { return typed.Copy(o) },
			} {
				g.Expect(read(kept)).To(Equal(want), "what the caller changes is not in the store")
			}

			meta := &metav1.PartialObjectMetadata{}
			g.Expect(typed.ShareInto(kept, meta)).To(Succeed())
			g.Expect(meta.ObjectMeta).To(Equal(want.ObjectMeta))
			same, err := form.As(reflect.TypeFor[*unstructured.Unstructured]())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(same).To(BeNil())
			whole := &unstructured.Unstructured{}
			g.Expect(form.CopyInto(kept, whole)).To(Succeed())
			g.Expect(whole).To(Equal(oddContent()), "and nothing is lost")

			g.Expect(typed.CopyInto(kept, &corev1.Secret{})).To(MatchError(ContainSubstring("cache had type *v1.ConfigMap, but *v1.Secret was asked for")))
		})
	}
}

func TestViewsOfWhatDoesNotFit(t *testing.T) {
	g := NewWithT(t)
	form := object.NewForm(object.Options{Type: reflect.TypeFor[*unstructured.Unstructured]()})
	typed, err := form.As(reflect.TypeFor[*corev1.ConfigMap]())
	g.Expect(err).NotTo(HaveOccurred())
	bad := oddContent()
	bad.Object["data"] = "text"
	g.Expect(typed.CopyInto(form.Keep(bad), &corev1.ConfigMap{})).To(MatchError(ContainSubstring("ConfigMap ns/one does not fit *v1.ConfigMap")))

	of := object.NewForm(object.Options{Type: reflect.TypeFor[*corev1.ConfigMap]()})
	_, err = of.As(reflect.TypeFor[*unstructured.Unstructured]())
	g.Expect(err).To(MatchError("objects that are kept as *v1.ConfigMap cannot be shown as *unstructured.Unstructured"))
}
