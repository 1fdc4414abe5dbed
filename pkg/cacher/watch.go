// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"context"
	"fmt"
	"iter"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
	etcdfeature "k8s.io/apiserver/pkg/storage/feature"

	"github.com/tarn-dev/tarn/internal/query"
	"github.com/tarn-dev/tarn/pkg/cacher/internal/dispatch"
	"github.com/tarn-dev/tarn/pkg/cacher/internal/element"
)

// Watch implements storage.Interface. The events of one watch are in the order of their
// revisions, none twice and none missing; the objects in them are shared by all watchers and
// must not be changed other than by their setters. The watch ends with ctx, with Stop, when
// the cache has to begin anew, and when the history has passed the watcher: with a 410 if the
// watch is read.
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
		return dispatch.Failed(fmt.Errorf("a watch stream was requested by the client but the required storage feature %s is disabled", storage.RequestWatchProgress)), nil
	}
	filter := element.NewFilter(prepared, opts.Predicate, c.form, c.features.shards)
	begin, err := c.beginning(ctx, filter, revision, opts)
	if err != nil {
		return dispatch.Failed(err), nil
	}
	w, ok := c.dispatcher.Start(ctx, dispatch.Watch{
		Filter: filter, Scope: c.scopeOf(ctx, opts.Predicate), Begin: begin, Generation: generation,
	})
	if !ok {
		return dispatch.Ended(), nil // the cache begins anew; the client comes back
	}
	return w, nil
}

// beginning returns where a watch from revision begins: with the state of now if it asks for
// that, otherwise with the events after the revision.
func (c *Cacher) beginning(
	ctx context.Context, filter *element.Filter, revision uint64, opts storage.ListOptions,
) (begin *dispatch.Beginning, err error) {
	if opts.ResourceVersion == "" && opts.SendInitialEvents != nil {
		if revision, err = c.config.Storage.GetCurrentResourceVersion(ctx); err != nil {
			return nil, err
		}
	}
	if sendsInitial(opts) {
		if err := c.waiter.untilFresh(ctx, revision); err != nil {
			return nil, err
		}
	}
	if sendsInitial(opts) || revision == 0 && opts.SendInitialEvents == nil {
		state := c.engine.Snapshot()
		return &dispatch.Beginning{
			State: state, Objects: c.initial(filter, opts), StreamsList: streamsList(opts),
			Position: state.Position(), Revision: state.Revision(),
		}, nil
	}
	if revision == 0 {
		state := c.engine.Snapshot()
		return &dispatch.Beginning{Position: state.Position(), Revision: state.Revision()}, nil
	}
	position, ok := c.engine.Position(revision)
	if !ok {
		return nil, apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", revision, c.engine.Oldest()))
	}
	return &dispatch.Beginning{Position: position, Revision: revision}, nil
}

// initial returns a function that yields all initial objects of a watch, perhaps with others.
func (c *Cacher) initial(filter *element.Filter, opts storage.ListOptions) func(*dispatch.Snapshot, string) iter.Seq[dispatch.Item] {
	if _, one := opts.Predicate.MatchesSingle(); opts.Recursive || !one {
		return func(state *dispatch.Snapshot, from string) iter.Seq[dispatch.Item] {
			q := c.indexes.query(filter)
			q.From = from
			return query.Candidates(state, q)
		}
	}
	return func(state *dispatch.Snapshot, from string) iter.Seq[dispatch.Item] {
		return func(yield func(dispatch.Item) bool) {
			if item, ok := state.Get(filter.Prefix); ok && filter.Prefix >= from {
				yield(item)
			}
		}
	}
}

var namespaces = schema.GroupResource{Resource: "namespaces"}

// scopeOf returns the namespace and the name that a watch is about. The rules are upstream's.
func (c *Cacher) scopeOf(ctx context.Context, p storage.SelectionPredicate) (s dispatch.Scope) {
	exactly := func(field string) string {
		if p.Field == nil {
			return ""
		}
		value, _ := p.Field.RequiresExactMatch(field)
		return value
	}
	if s.Namespace = request.NamespaceValue(ctx); s.Namespace == "" {
		s.Namespace = exactly(element.NamespaceField)
	}
	if info, ok := request.RequestInfoFrom(ctx); ok && info != nil && info.Name != "" {
		s.Name = info.Name
	} else {
		s.Name = exactly(element.NameField)
	}
	// A namespace is in itself for the request, and in none for its fields.
	if c.config.GroupResource == namespaces && s.Namespace != "" && s.Namespace == s.Name {
		s.Namespace = ""
	}
	return s
}
