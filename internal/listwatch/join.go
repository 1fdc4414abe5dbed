// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/tarn-dev/tarn/internal/relist"
)

// Joiner is a Source that may have its objects from a watch that others share.
type Joiner interface {
	Source
	// Join brings a list that List might return, and then the events that follow, until there are no more, ctx ends, or a function of
	// to returns an error. It reports false if there is no watch to join, and has brought nothing then. Join calls the functions of to in the
	// goroutine of the caller, and must not be called again before it has returned.
	Join(ctx context.Context, opts metav1.ListOptions, to Joined) (joined bool, err error)
}

// Joined takes what a Joiner brings, in one goroutine. The events have not gone through Finish.
type Joined struct {
	List  func(runtime.Object) error
	Event func(watch.Event) error
}

// Store is what a Reflector writes into. It must stay an alias: package informer names the same type in its interface follower, and otherwise no
// namespace would join.
type Store = interface {
	toolscache.ReflectorStore
	toolscache.ReflectorBookmarkStore
}

// Join joins what a source joins, if it may join anything.
func Join(ctx context.Context, s Source, opts metav1.ListOptions, to Joined) (joined bool, err error) {
	if joiner, ok := s.(Joiner); ok {
		return joiner.Join(ctx, opts, to)
	}
	return false, nil
}

// Follow brings the objects to a store from a watch that others share, until ctx ends or no more will come. It is not followed if there is no
// such watch, and nothing was brought then. The list is at least as new as version; "0" stands for any, and "" for the newest. If it has not
// failed the error is that of relist.Now. It takes no notice of Options.Lists: sources with a rule that changes are no Joiners.
func (lw *listWatch) Follow(ctx context.Context, version string, to Store) (followed bool, err error) {
	opts, begun, listed := lw.listOptions(metav1.ListOptions{ResourceVersion: version}), false, false
	followed, err = Join(ctx, lw.source, opts, Joined{
		List: func(list runtime.Object) error {
			begun = true
			lw.options.Counters.listing(opts)
			err := replace(to, list)
			listed = err == nil
			return err
		},
		Event: func(e watch.Event) error { return store(ctx, to, lw.each(e)) },
	})
	if followed && !begun {
		lw.options.Counters.listing(opts)
	}
	if lw.options.Counters != nil && listed {
		lw.options.Counters.ended(ctx, Closed)
	}
	switch {
	case followed && err == nil:
		err = relist.Now()
	case errors.Is(err, errEnded):
		err = nil
	}
	return followed, err
}

// errEnded says that a watch has brought an error. The Failures know that error, so Follow does not return it. The next list waits as after
// any failure.
var errEnded = errors.New("the watch has ended with an error")

// replace makes a list the state of a store.
func replace(to Store, list runtime.Object) error {
	m, err := meta.ListAccessor(list)
	if err != nil {
		return err
	}
	objects, err := meta.ExtractListWithAlloc(list)
	if err != nil {
		return err
	}
	items := make([]any, len(objects))
	for i, obj := range objects {
		items[i] = obj
	}
	return to.Replace(items, m.GetResourceVersion())
}

// store writes an event into a store. As with a Reflector, an object that cannot be stored is reported, and does not end the watch.
func store(ctx context.Context, to Store, event watch.Event) error {
	if event.Type == watch.Error {
		logger, why := klog.FromContext(ctx), apierrors.FromObject(event.Object)
		if isExpired(why) { // each namespace of the wide watch is told
			logger = logger.V(4)
		}
		logger.Info("Warning: watch ended with error", "err", why)
		return errEnded
	}
	m, err := meta.Accessor(event.Object)
	if err == nil {
		switch event.Type {
		case watch.Added:
			err = to.Add(event.Object)
		case watch.Modified:
			err = to.Update(event.Object)
		case watch.Deleted:
			err = to.Delete(event.Object)
		case watch.Bookmark:
			err = to.Bookmark(m.GetResourceVersion())
		default:
			err = errors.New("its type is unknown")
		}
	}
	if err != nil {
		utilruntime.HandleErrorWithContext(ctx, err, "An event of a watch cannot be stored", "type", event.Type)
	}
	return nil
}
