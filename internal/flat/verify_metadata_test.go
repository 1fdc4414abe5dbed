// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarn-dev/tarn/internal/flat"
)

type PointerBase struct{ metav1.ObjectMeta }

type ofPointer struct{ *PointerBase }

type anotherName struct{ metav1.ObjectMeta }

func (a *anotherName) GetName() string { return "another " + a.Name }

type anotherGeneration struct{ metav1.ObjectMeta }

func (a *anotherGeneration) GetGeneration() int64 { return 7 }

// TestVerifyComparesMetadataAlways: also if the codec knows of none, or of others.
func TestVerifyComparesMetadataAlways(t *testing.T) {
	m := metav1.ObjectMeta{Name: "a", Labels: map[string]string{"b": "c"}}
	for _, test := range []struct {
		obj  any
		path string
	}{
		{&ofPointer{&PointerBase{m}}, `metadata.name, which is "a", and read from the bytes ""`},
		{&ofPointer{&PointerBase{metav1.ObjectMeta{Labels: m.Labels}}}, "labels or annotations"},
		{&ofPointer{&PointerBase{metav1.ObjectMeta{Finalizers: []string{"f"}}}}, "metadata.Finalizers"},
		{&anotherName{m}, `metadata.name, which is "another a", and read from the bytes "a"`},
		{&anotherGeneration{m}, "metadata.Generation"},
		{&corev1.Pod{ObjectMeta: m}, ""},
		{&ofPointer{&PointerBase{}}, ""},
	} {
		c := codecFor(t, reflect.TypeOf(test.obj))
		err := c.Verify(test.obj, mustEncode(t, c, test.obj, nil))
		var mismatch *flat.MismatchError
		if test.path == "" {
			if err != nil {
				t.Errorf("%T: %v", test.obj, err)
			}
		} else if !errors.As(err, &mismatch) || !strings.Contains(mismatch.Path, test.path) {
			t.Errorf("%T: got %v, want a difference at %s", test.obj, err, test.path)
		}
	}
}

// TestRecursiveEmbedding: a type may embed a pointer to itself.
func TestRecursiveEmbedding(t *testing.T) {
	type Recursive struct {
		*Recursive
		PointerBase
	}
	c := codecFor(t, reflect.TypeFor[Recursive]())
	obj := &Recursive{PointerBase: PointerBase{metav1.ObjectMeta{Name: "a"}}}
	if err := c.Verify(obj, mustEncode(t, c, obj, nil)); err != nil {
		t.Error(err)
	}
}
