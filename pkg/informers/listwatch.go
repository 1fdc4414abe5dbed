// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
)

// Selector restricts what a map lists and watches. A nil selector restricts
// nothing.
type Selector struct {
	Label labels.Selector
	Field fields.Selector
}

func (s Selector) applyTo(opts *metav1.ListOptions) {
	if s.Label != nil {
		opts.LabelSelector = s.Label.String()
	}
	if s.Field != nil {
		opts.FieldSelector = s.Field.String()
	}
}

// maxDescribed is the length up to which a selector is shown: that of the other namespaces
// names every namespace that has an informer of its own.
const maxDescribed = 200

// describe names the selectors, and is empty if they restrict nothing.
func (s Selector) describe() string {
	var parts []string
	if s.Label != nil && !s.Label.Empty() {
		parts = append(parts, fmt.Sprintf("the label selector %q", s.Label))
	}
	if s.Field != nil && !s.Field.Empty() {
		parts = append(parts, fmt.Sprintf("the field selector %q", s.Field))
	}
	text := strings.Join(parts, " and ")
	if len(text) > maxDescribed {
		text = text[:maxDescribed] + "…"
	}
	return text
}

// namespace returns the one namespace that the selector admits, or "". A list
// of that namespace needs permissions in it alone.
func (s Selector) namespace() string {
	if s.Field == nil || s.Field.Empty() {
		return ""
	}
	namespace, _ := s.Field.RequiresExactMatch("metadata.namespace")
	return namespace
}

// listWatch is the ListerWatcher of a source under a map's selector.
type listWatch struct {
	*toolscache.ListWatch
	bookmarks bool
	// arrive is passed every event of a watch, finished by its source; several at
	// once. It is set before the first watch.
	arrive func(watch.Event) watch.Event
}

func newListWatch(s source, selector Selector, bookmarks bool) *listWatch {
	expected := kindOf(s.example())
	lw := &listWatch{bookmarks: bookmarks, arrive: func(e watch.Event) watch.Event { return e }}
	lw.ListWatch = &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			selector.applyTo(&opts)
			return s.list(ctx, opts)
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			opts.Watch = true
			opts.AllowWatchBookmarks = bookmarks
			selector.applyTo(&opts)
			watcher, err := s.watch(ctx, opts)
			if err != nil {
				return nil, err
			}
			return inOrder(watcher, func(e watch.Event) watch.Event { return lw.arrive(expected.check(s.finish(e))) }), nil
		},
	}
	return lw
}

// IsWatchListSemanticsUnSupported tells the Reflector to list and then watch if
// bookmarks are off: a streaming list ends with one (KEP-3157), so that without
// them it would never be complete.
func (lw *listWatch) IsWatchListSemanticsUnSupported() bool { return !lw.bookmarks }

// kind is what the objects of a watch must be: of a Go type, which an unstructured one
// is together with its kind.
type kind struct {
	goType reflect.Type
	gvk    schema.GroupVersionKind // empty unless unstructured
}

func kindOf(obj runtime.Object) kind {
	k := kind{goType: reflect.TypeOf(obj)}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		k.gvk = u.GroupVersionKind()
	}
	return k
}

// check puts a Status in the place of an object of another kind, such as a Table, which
// must not be kept. The Reflector logs an event of a Status and passes it over, as it does
// in client-go's informer with an object of a kind that it does not expect.
func (k kind) check(event watch.Event) watch.Event {
	if got := kindOf(event.Object); event.Type != watch.Error && (got.goType != k.goType || !k.gvk.Empty() && got.gvk != k.gvk) {
		event.Object = &metav1.Status{Message: fmt.Sprintf("the watch is of %v, and sent %v", k, got)}
	}
	return event
}
