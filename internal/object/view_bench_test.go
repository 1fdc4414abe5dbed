// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package object_test

import (
	"math/rand/v2"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tarn-dev/tarn/internal/object"
)

// BenchmarkView makes a Pod of a flat unstructured one. For comparison it copies a flat Pod, and keeps a Pod with a
// declared field.
func BenchmarkView(b *testing.B) {
	pod := randomPod(rand.New(rand.NewPCG(1, 1))).(*corev1.Pod)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
	if err != nil {
		b.Fatal(err)
	}
	whole := object.NewForm(object.Options{Type: reflect.TypeFor[*unstructured.Unstructured]()})
	view, err := whole.As(reflect.TypeFor[*corev1.Pod]())
	if err != nil {
		b.Fatal(err)
	}
	shown, own := whole.Keep(&unstructured.Unstructured{Object: content}), podForm()
	kept, into := own.Keep(pod), &corev1.Pod{}
	b.Run("view", func(b *testing.B) {
		for b.Loop() {
			if err := view.CopyInto(shown, into); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("copy", func(b *testing.B) {
		for b.Loop() {
			if err := own.CopyInto(kept, into); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("keep", func(b *testing.B) {
		for b.Loop() {
			own.Keep(pod)
		}
	})
}
