// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"context"
	"reflect"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/listwatch"
)

// shownInformer is a View with the Informer below it, as one informer.
type shownInformer struct{ *View }

// newShownInformer makes an informer of the unstructured objects of s, and a view of it as the Go type.
func newShownInformer(s *server, want setting) toolscache.SharedIndexInformer {
	base, err := New(func(to Receiver) toolscache.ListerWatcher {
		return listwatch.New(unstructuredSource{serverSource{s}}, listwatch.Options{Bookmarks: s.streaming, Each: to.Each})
	}, Options{
		Example: &unstructured.Unstructured{}, Description: reflect.TypeOf(want.example).String(), ResyncPeriod: want.resync,
		NamespaceIndex: want.namespaces, Verify: true, Window: conformanceWindow,
	})
	if err != nil {
		panic(err)
	}
	view, err := NewView(base, want.example.(client.Object), "typed/")
	if err != nil {
		panic(err)
	}
	if err := view.AddIndexers(want.indexers); err != nil {
		panic(err)
	}
	return shownInformer{view}
}

// RunWithContext runs the view and what is below it.
func (s shownInformer) RunWithContext(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { s.base.RunWithContext(ctx) })
	s.View.RunWithContext(ctx)
	running.Wait()
}

// Run is RunWithContext.
func (s shownInformer) Run(stop <-chan struct{}) { s.RunWithContext(wait.ContextForChannel(stop)) }

func (s shownInformer) SetWatchErrorHandler(h toolscache.WatchErrorHandler) error {
	return s.base.SetWatchErrorHandler(h)
}

func (s shownInformer) SetWatchErrorHandlerWithContext(h toolscache.WatchErrorHandlerWithContext) error {
	return s.base.SetWatchErrorHandlerWithContext(h)
}

// SetTransform has a transform of the Go type called for the unstructured objects.
func (s shownInformer) SetTransform(transform toolscache.TransformFunc) error {
	if transform == nil {
		return s.base.SetTransform(nil)
	}
	return s.base.SetTransform(func(obj any) (any, error) {
		typed, err := s.as.Of(obj)
		if err != nil {
			return nil, err
		}
		changed, err := transform(typed)
		if err != nil || reflect.TypeOf(changed) != reflect.TypeOf(typed) {
			return changed, err
		}
		return toUnstructured(changed.(runtime.Object)), nil
	})
}

// unstructuredSource is a server as a source of unstructured objects.
type unstructuredSource struct{ serverSource }

func (s unstructuredSource) Example() runtime.Object { return &unstructured.Unstructured{} }

func (s unstructuredSource) List(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	typed, err := s.serverSource.List(ctx, opts)
	if err != nil {
		return nil, err
	}
	list := &unstructured.UnstructuredList{}
	list.SetUnstructuredContent(toUnstructured(typed).Object)
	return list, nil
}

func (s unstructuredSource) Finish(e watch.Event) watch.Event {
	if _, status := e.Object.(*metav1.Status); !status {
		e.Object = toUnstructured(e.Object)
	}
	return e
}

func toUnstructured(obj runtime.Object) *unstructured.Unstructured {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		panic(err)
	}
	return &unstructured.Unstructured{Object: content}
}
