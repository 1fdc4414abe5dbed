// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/tarn-dev/tarn/pkg/cache"
)

// informersOf is a cache that has informers.
type informersOf struct {
	cache.Cache
	kinds []string // in order
	fails error
}

func (i *informersOf) GetInformer(_ context.Context, obj client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	if kind := obj.GetObjectKind().GroupVersionKind().Kind; !slices.Contains(i.kinds, kind) {
		i.kinds = append(i.kinds, kind)
		slices.Sort(i.kinds)
	}
	return &controllertest.FakeInformer{}, i.fails
}

func (i *informersOf) RemoveInformer(_ context.Context, obj client.Object) error {
	i.kinds = slices.DeleteFunc(i.kinds, func(kind string) bool { return kind == obj.GetObjectKind().GroupVersionKind().Kind })
	return nil
}

// starter is a controller that begins what it should watch.
type starter struct{ controller.Controller }

func (starter) Watch(from source.Source) error { return from.Start(context.Background(), nil) }

func TestKindsAreWatchedWhileObjectsOfThemRemain(t *testing.T) {
	pods, secrets := corev1.SchemeGroupVersion.WithKind("Pod"), corev1.SchemeGroupVersion.WithKind("Secret")
	of := &informersOf{}
	l := newLeftovers(of, starter{})
	for _, step := range []struct {
		does      string
		namespace string
		remain    []schema.GroupVersionKind
		fails     error
		missed    bool
		watched   []string
	}{
		{"the first namespace", "a", []schema.GroupVersionKind{pods}, nil, true, []string{"Pod"}},
		{"it is looked at again", "a", []schema.GroupVersionKind{pods}, nil, false, []string{"Pod"}},
		{"another one has more", "b", []schema.GroupVersionKind{pods, secrets}, nil, true, []string{"Pod", "Secret"}},
		{"the first is gone", "a", nil, nil, false, []string{"Pod", "Secret"}},
		{"less remains", "b", []schema.GroupVersionKind{secrets}, nil, false, []string{"Secret"}},
		{"the other is gone", "b", nil, nil, false, nil},
		{"one is not cached in time", "a", []schema.GroupVersionKind{pods}, errors.New("slow"), false, []string{"Pod"}},
		{"a kind is gone, and was not cached in time", "a", nil, nil, false, nil},
		{"a kind is not served", "a", []schema.GroupVersionKind{pods}, &meta.NoKindMatchError{}, true, []string{"Pod"}},
		{"it is back", "a", []schema.GroupVersionKind{pods}, nil, true, []string{"Pod"}},
		{"it is gone", "a", nil, nil, false, nil},
	} {
		of.fails = step.fails
		missed, err := l.watch(t.Context(), step.namespace, step.remain, l.now())
		if err != nil || missed != step.missed {
			t.Errorf("%s: missed %t, %v", step.does, missed, err)
		}
		if !slices.Equal(of.kinds, step.watched) {
			t.Errorf("%s: it watches %v, not %v", step.does, of.kinds, step.watched)
		}
	}
}
