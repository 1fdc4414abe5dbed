// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
	etcdfeature "k8s.io/apiserver/pkg/storage/feature"

	"github.com/tarn-dev/tarn/internal/query"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

// Watch implements storage.Interface. The events of one watch are in the order of their
// revisions, none twice and none missing; the objects in them are shared by all watchers and
// must not be changed other than by their setters. The watch ends with ctx, with Stop, when
// the cache has to begin anew, and when the history has left the watcher behind: with a 410 if
// the watch is read.
func (c *Cacher) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	if !c.features.watchList {
		opts.SendInitialEvents = nil
	}
	prepared, err := storage.PrepareKey(c.config.ResourcePrefix, key, opts.Recursive)
	if err != nil {
		return nil, err
	}
	revision, err := c.config.Versioner.ParseResourceVersion(opts.ResourceVersion)
	if err != nil {
		return nil, err
	}
	generation, err := c.ready.admit(ctx)
	if err != nil {
		return nil, err
	}
	if streamsList(opts) && !etcdfeature.DefaultFeatureSupportChecker.Supports(storage.RequestWatchProgress) {
		return failed(fmt.Errorf("a watch stream was requested by the client but the required storage feature %s is disabled", storage.RequestWatchProgress)), nil
	}
	begin, err := c.beginning(ctx, prepared, revision, opts)
	if err != nil {
		return failed(err), nil
	}
	w := c.newWatcher(ctx, prepared, opts)
	w.since = begin.revision
	if !c.dispatcher.start(ctx, w, begin, generation) {
		return ended(), nil // the cache begins anew; the client comes back
	}
	return w, nil
}

// streamsList reports that the watch stands for a list.
func streamsList(opts storage.ListOptions) bool {
	return sendsInitial(opts) && opts.Predicate.AllowWatchBookmarks
}

func sendsInitial(opts storage.ListOptions) bool {
	return opts.SendInitialEvents != nil && *opts.SendInitialEvents
}

// beginning returns where a watch from revision begins: with the state of now if it asks for
// that, otherwise with the events after the revision.
func (c *Cacher) beginning(ctx context.Context, key string, revision uint64, opts storage.ListOptions) (begin *beginning, err error) {
	if opts.ResourceVersion == "" && opts.SendInitialEvents != nil {
		if revision, err = c.storage.GetCurrentResourceVersion(ctx); err != nil {
			return nil, err
		}
	}
	if sendsInitial(opts) {
		if err := c.waitUntilFresh(ctx, revision); err != nil {
			return nil, err
		}
	}
	if sendsInitial(opts) || revision == 0 && opts.SendInitialEvents == nil {
		state := c.engine.Snapshot()
		return &beginning{
			state: state, key: key, opts: opts, position: state.Position(), revision: state.Revision(),
		}, nil
	}
	if revision == 0 {
		state := c.engine.Snapshot()
		return &beginning{position: state.Position(), revision: state.Revision()}, nil
	}
	position, ok := c.engine.Position(revision)
	if !ok {
		return nil, apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", revision, c.engine.Oldest()))
	}
	return &beginning{position: position, revision: revision}, nil
}

// initial walks the objects among which are those that a watch begins with, from a key on.
func (c *Cacher) initial(begin *beginning, from string) iter.Seq[watchcache.Item[*element]] {
	if _, one := begin.opts.Predicate.MatchesSingle(); begin.opts.Recursive || !one {
		q := newFilter(begin.key, begin.opts.Predicate, c.elements, c.features.shards).query(c.indexes)
		q.From = from
		return query.Candidates(begin.state, q)
	}
	return func(yield func(watchcache.Item[*element]) bool) {
		if item, ok := begin.state.Get(begin.key); ok && begin.key >= from {
			yield(item)
		}
	}
}

func (c *Cacher) newWatcher(ctx context.Context, key string, opts storage.ListOptions) *watcher {
	w := &watcher{
		dispatcher:     c.dispatcher,
		filter:         newFilter(key, opts.Predicate, c.elements, c.features.shards),
		scope:          c.scopeOf(ctx, opts.Predicate),
		result:         make(chan watch.Event, resultSize),
		done:           make(chan struct{}),
		wantsBookmarks: opts.Predicate.AllowWatchBookmarks,
	}
	w.deadline, _ = ctx.Deadline()
	if t := c.dispatcher.trigger; t != nil && opts.Predicate.Field != nil {
		for _, field := range opts.Predicate.IndexFields {
			if value, ok := opts.Predicate.Field.RequiresExactMatch(field); ok && field == t.field {
				w.trigger, w.triggered = value, true
			}
		}
	}
	return w
}

var namespaces = schema.GroupResource{Resource: "namespaces"}

// scopeOf returns the namespace and the name that a watch is about. The rules are upstream's.
func (c *Cacher) scopeOf(ctx context.Context, p storage.SelectionPredicate) (s scope) {
	exactly := func(field string) string {
		if p.Field == nil {
			return ""
		}
		value, _ := p.Field.RequiresExactMatch(field)
		return value
	}
	if s.namespace = request.NamespaceValue(ctx); s.namespace == "" {
		s.namespace = exactly(namespaceField)
	}
	if info, ok := request.RequestInfoFrom(ctx); ok && info != nil && info.Name != "" {
		s.name = info.Name
	} else {
		s.name = exactly(nameField)
	}
	// A namespace is in itself for the request, and in none for its fields.
	if c.config.GroupResource == namespaces && s.namespace != "" && s.namespace == s.name {
		s.namespace = ""
	}
	return s
}

// start takes a watcher in and begins to send. It returns false if the cache is not in the
// given generation any more.
func (d *dispatcher) start(ctx context.Context, w *watcher, begin *beginning, generation int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now, err := d.cacher.ready.check(); err != nil || now != generation || d.stopped {
		return false
	}
	d.watchers[w] = struct{}{}
	if w.wantsBookmarks {
		d.bookmarks.add(w, d.cacher.config.Clock.Now())
	}
	w.forget = context.AfterFunc(ctx, w.Stop)
	d.parked.Go(func() { w.run(ctx, begin) })
	return true
}

// failed returns a watch that ends with an error. An API server sends it as an event.
func failed(err error) watch.Interface {
	result := make(chan watch.Event, 1)
	result <- errorEvent(err)
	close(result)
	return watch.NewProxyWatcher(result)
}

// ended returns a watch that has ended.
func ended() watch.Interface {
	result := make(chan watch.Event)
	close(result)
	return watch.NewProxyWatcher(result)
}

func errorEvent(err error) watch.Event {
	var status apierrors.APIStatus
	var object runtime.Object
	switch {
	case errors.As(err, &object):
	case errors.As(err, &status):
		s := status.Status()
		object = &s
	default:
		object = &metav1.Status{
			Status:  metav1.StatusFailure,
			Message: err.Error(),
			Reason:  metav1.StatusReasonInternalError,
			Code:    http.StatusInternalServerError,
		}
	}
	return watch.Event{Type: watch.Error, Object: object}
}
