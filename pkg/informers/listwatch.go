// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
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
			return inOrder(watcher, func(e watch.Event) watch.Event { return lw.arrive(s.finish(e)) }), nil
		},
	}
	return lw
}

// IsWatchListSemanticsUnSupported tells the Reflector to list and then watch if
// bookmarks are off: a streaming list ends with one (KEP-3157), so that without
// them it would never be complete.
func (lw *listWatch) IsWatchListSemanticsUnSupported() bool { return !lw.bookmarks }
