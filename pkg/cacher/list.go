// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"context"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher/delegator"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"github.com/tarn-dev/tarn/internal/query"
	"github.com/tarn-dev/tarn/pkg/watchcache"
)

// GetList implements storage.Interface. It answers with the state that the resource version
// and the rule for it ask for, as
// https://kubernetes.io/docs/reference/using-api/api-concepts/#semantics-for-get-and-list
// says; what the cache does not have, the storage answers. The objects of the list must not
// be changed in depth: those that are kept decoded share memory with the cache.
func (c *Cacher) GetList(ctx context.Context, key string, opts storage.ListOptions, into runtime.Object) error {
	if _, _, err := storage.ValidateListOptions(c.config.ResourcePrefix, c.config.Versioner, opts); err != nil {
		return err
	}
	delegated, err := delegator.ShouldDelegateList(opts, delegation{c})
	if err != nil {
		return err
	}
	if delegated.ShouldDelegate || !c.checker.consistent() {
		return c.storage.GetList(ctx, key, opts, into)
	}
	if _, err := c.ready.check(); err != nil && servesUnready(opts) {
		return c.storage.GetList(ctx, key, opts, into)
	}
	err = c.list(ctx, key, opts, into)
	switch {
	case apierrors.IsResourceExpired(err) && keepsSnapshots():
		return c.storage.GetList(ctx, key, opts, into)
	case delegated.ConsistentRead:
		return c.consistentRead(ctx, err, key, opts, into)
	}
	return err
}

// consistentRead counts a consistent read that ended with err. One for which the cache was
// not fresh in time is to be tried again, or by an older rule is answered by the storage.
func (c *Cacher) consistentRead(ctx context.Context, err error, key string, opts storage.ListOptions, into runtime.Object) error {
	fallback := "false"
	if storage.IsTooLargeResourceVersion(err) && ctx.Err() == nil { // there is time for another try
		if utilfeature.DefaultFeatureGate.Enabled(features.ConsistentListFromCacheSkipTimeoutFallback) {
			fallback = "skipped"
			err = apierrors.NewTooManyRequests(err.Error(), retryFresh)
		} else {
			fallback = "true"
			err = c.storage.GetList(ctx, key, opts, into)
		}
	}
	c.metrics.consistentRead(err == nil, fallback)
	return err
}

// list answers from the cache.
func (c *Cacher) list(ctx context.Context, key string, opts storage.ListOptions, into runtime.Object) error {
	prepared, err := storage.PrepareKey(c.config.ResourcePrefix, key, opts.Recursive)
	if err != nil {
		return err
	}
	if _, err := c.ready.admit(ctx); err != nil {
		return err
	}
	values, err := itemsOf(into)
	if err != nil {
		return err
	}
	at, err := c.pointOf(ctx, prepared, opts)
	if err != nil {
		return err
	}
	q := c.query(prepared, at.from, opts)
	c.indexes.planner.Prepare(q)
	state, err := c.state(ctx, at)
	if err != nil {
		return err
	}
	answer, err := query.Find(state, q)
	if err != nil {
		return err
	}
	values.Set(reflect.MakeSlice(values.Type(), len(answer.Items), len(answer.Items)))
	last := ""
	for i, item := range answer.Items {
		if err := c.elements.fill(item.Value, values.Index(i)); err != nil {
			return err
		}
		last = item.Key
	}
	token, remaining, err := storage.PrepareContinueToken(last, key, int64(state.Revision()), int64(len(answer.Items)+answer.Rest), answer.More, opts)
	if err != nil {
		return err
	}
	if err := c.config.Versioner.UpdateList(into, state.Revision(), token, remaining); err != nil {
		return err
	}
	if utilfeature.DefaultFeatureGate.Enabled(features.ShardedListAndWatch) {
		opts.Predicate.SetShardInfoOnList(into)
	}
	c.metrics.listed(c.indexes.nameOf(answer.Index), answer.Looked, len(answer.Items))
	return nil
}

// itemsOf returns the slice of a list.
func itemsOf(list runtime.Object) (reflect.Value, error) {
	pointer, err := meta.GetItemsPtr(list)
	if err != nil {
		return reflect.Value{}, err
	}
	values, err := conversion.EnforcePtr(pointer)
	if err != nil {
		return reflect.Value{}, err
	}
	if values.Kind() != reflect.Slice {
		return reflect.Value{}, fmt.Errorf("need a pointer to slice, got %v", values.Kind())
	}
	return values, nil
}

// point is where a list reads: at a revision or, if that is not exact, at any later one,
// from a key on.
type point struct {
	revision uint64
	exact    bool
	from     string
}

// pointOf returns where a list reads.
func (c *Cacher) pointOf(ctx context.Context, key string, opts storage.ListOptions) (point, error) {
	revision, err := c.config.Versioner.ParseResourceVersion(opts.ResourceVersion)
	if err != nil {
		return point{}, err
	}
	match := opts.ResourceVersionMatch
	switch {
	case match == "" && opts.Recursive && opts.Predicate.Continue != "":
		from, at, err := storage.DecodeContinue(opts.Predicate.Continue, key)
		if err != nil {
			return point{}, apierrors.NewBadRequest(fmt.Sprintf("invalid continue token: %v", err))
		}
		if at > 0 {
			return point{revision: uint64(at), exact: true, from: from}, nil
		}
		return c.now(ctx, from)
	case match == "" && opts.ResourceVersion == "":
		return c.now(ctx, "")
	case match == metav1.ResourceVersionMatchExact,
		match == "" && opts.Recursive && opts.Predicate.Limit > 0 && opts.ResourceVersion != "0":
		return point{revision: revision, exact: true}, nil
	}
	return point{revision: revision}, nil
}

// now is the point of a consistent read.
func (c *Cacher) now(ctx context.Context, from string) (point, error) {
	revision, err := c.storage.GetCurrentResourceVersion(ctx)
	return point{revision: revision, from: from}, err
}

// state returns the state at a point. The error is a 410 if the history does not reach back
// to it.
func (c *Cacher) state(ctx context.Context, at point) (*watchcache.Snapshot[*element], error) {
	if err := c.waitUntilFresh(ctx, at.revision); err != nil {
		return nil, err
	}
	if !at.exact {
		return c.engine.Snapshot(), nil
	}
	state, ok := c.engine.At(at.revision)
	if !ok {
		return nil, apierrors.NewResourceExpired(fmt.Sprintf("resource version %d is too old: the cache goes back to %d", at.revision, c.engine.Oldest()))
	}
	return state, nil
}
