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
	if i.fails != nil {
		return i.fails
	}
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
	unremovable := errors.New("it cannot be removed")
	before := 0 // what the look began with in the step before
	for _, step := range []struct {
		does      string
		namespace string
		remain    []schema.GroupVersionKind
		fails     error
		overlaps  bool // the look began before the step before
		unknown   bool // more may remain
		missed    bool
		watched   []string
	}{
		{does: "the first namespace", namespace: "a", remain: []schema.GroupVersionKind{pods}, missed: true, watched: []string{"Pod"}},
		{does: "it is looked at again", namespace: "a", remain: []schema.GroupVersionKind{pods}, watched: []string{"Pod"}},
		{does: "another one has more", namespace: "b", remain: []schema.GroupVersionKind{pods, secrets}, missed: true, watched: []string{"Pod", "Secret"}},
		{does: "a third one at the same time", namespace: "c", remain: []schema.GroupVersionKind{secrets}, overlaps: true, missed: true, watched: []string{"Pod", "Secret"}},
		{does: "the third is gone", namespace: "c", watched: []string{"Pod", "Secret"}},
		{does: "the first is gone", namespace: "a", watched: []string{"Pod", "Secret"}},
		{does: "not all is known", namespace: "b", remain: []schema.GroupVersionKind{secrets}, unknown: true, watched: []string{"Pod", "Secret"}},
		{does: "less remains", namespace: "b", remain: []schema.GroupVersionKind{secrets}, watched: []string{"Secret"}},
		{does: "an informer stays", namespace: "b", fails: unremovable, watched: []string{"Secret"}},
		{does: "the other is gone", namespace: "b"},
		{does: "one is not cached in time", namespace: "a", remain: []schema.GroupVersionKind{pods}, fails: errors.New("slow"), watched: []string{"Pod"}},
		{does: "a kind is gone, and was not cached in time", namespace: "a"},
		{does: "a kind is not served", namespace: "a", remain: []schema.GroupVersionKind{pods}, fails: &meta.NoKindMatchError{}, missed: true, watched: []string{"Pod"}},
		{does: "it is back", namespace: "a", remain: []schema.GroupVersionKind{pods}, missed: true, watched: []string{"Pod"}},
		{does: "it is gone", namespace: "a"},
	} {
		of.fails = step.fails
		look := l.now()
		if step.overlaps {
			look = before
		}
		before = l.now()
		if missed := l.watch(t.Context(), step.namespace, step.remain, look); missed != step.missed {
			t.Errorf("%s: missed %t", step.does, missed)
		}
		if !step.unknown {
			if err := l.end(t.Context(), step.namespace, step.remain); errors.Is(err, unremovable) != (step.fails == unremovable) {
				t.Errorf("%s: %v", step.does, err)
			}
		}
		if !slices.Equal(of.kinds, step.watched) {
			t.Errorf("%s: it watches %v, not %v", step.does, of.kinds, step.watched)
		}
	}
}
