// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/watchlist"
)

// listPageSize is how many objects the storage is asked for at once.
const listPageSize = 10_000

// listerWatcher shows a storage to a Reflector.
type listerWatcher struct {
	storage storage.Interface
	prefix  string
	newList func() runtime.Object
	streams bool         // lists can be streamed
	rewatch func() error // is asked before a watch
}

var _ toolscache.ListerWatcherWithContext = (*listerWatcher)(nil)

// ListWithContext implements ListerWatcherWithContext.
func (l *listerWatcher) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	list := l.newList()
	version := "" // the newest list, though a Reflector would take any
	if options.ResourceVersionMatch == metav1.ResourceVersionMatchExact {
		version = options.ResourceVersion // client-go's detector compares this list with what a watch has sent
	}
	err := l.storage.GetList(ctx, l.prefix, storage.ListOptions{
		ResourceVersion:      version,
		ResourceVersionMatch: options.ResourceVersionMatch,
		Predicate: storage.SelectionPredicate{
			Label: labels.Everything(), Field: fields.Everything(),
			Limit: options.Limit, Continue: options.Continue,
		},
		Recursive: true,
	}, list)
	if err != nil {
		return nil, err
	}
	return list, nil
}

var errNoWatchList = errors.New("sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled")

// WatchWithContext implements ListerWatcherWithContext.
func (l *listerWatcher) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if err := l.rewatch(); err != nil {
		return nil, err
	}
	predicate := storage.Everything
	predicate.AllowWatchBookmarks = options.AllowWatchBookmarks
	opts := storage.ListOptions{
		ResourceVersion:   options.ResourceVersion,
		Predicate:         predicate,
		Recursive:         true,
		ProgressNotify:    true,
		SendInitialEvents: options.SendInitialEvents,
	}
	// Without the feature a storage would send neither the state nor the bookmark behind it, for
	// which the Reflector waits. After an error it lists.
	if streamsList(opts) && !l.streams {
		return nil, errNoWatchList
	}
	return l.storage.Watch(ctx, l.prefix, opts)
}

// streamsList reports that the watch stands for a list.
func streamsList(opts storage.ListOptions) bool {
	return sendsInitial(opts) && opts.Predicate.AllowWatchBookmarks
}

func sendsInitial(opts storage.ListOptions) bool {
	return opts.SendInitialEvents != nil && *opts.SendInitialEvents
}

// List implements ListerWatcher.
func (l *listerWatcher) List(options metav1.ListOptions) (runtime.Object, error) {
	return l.ListWithContext(context.Background(), options)
}

// Watch implements ListerWatcher.
func (l *listerWatcher) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return l.WatchWithContext(context.Background(), options)
}

// IsWatchListSemanticsUnSupported tells a Reflector not to ask for a streaming list of a
// storage that has none.
func (l *listerWatcher) IsWatchListSemanticsUnSupported() bool {
	return watchlist.DoesClientNotSupportWatchListSemantics(l.storage)
}
