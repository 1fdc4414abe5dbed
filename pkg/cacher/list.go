// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"context"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher/delegator"

	"github.com/tarn-dev/tarn/internal/query"
	"github.com/tarn-dev/tarn/pkg/cacher/internal/dispatch"
)

// GetList implements storage.Interface. It answers with the state that the resource version
// and the rule for it ask for, as
// https://kubernetes.io/docs/reference/using-api/api-concepts/#semantics-for-get-and-list
// says; what the cache does not have, the storage answers. The objects of the list must not
// be changed in depth: those that are kept decoded share memory with the cache.
func (c *Cacher) GetList(ctx context.Context, key string, opts storage.ListOptions, into runtime.Object) error {
	r, err := c.parseList(key, opts)
	if err != nil {
		return err
	}
	delegated, err := delegator.ShouldDelegateList(opts, delegation{r, c.features.snapshots, c.holds})
	if err != nil {
		return err
	}
	if delegated.ShouldDelegate || !c.checker.consistent() || r.limited() && !c.ready.isReady() {
		return c.config.Storage.GetList(ctx, key, opts, into)
	}
	err = c.list(ctx, r, into)
	switch {
	case apierrors.IsResourceExpired(err) && c.features.snapshots:
		return c.config.Storage.GetList(ctx, key, opts, into)
	case delegated.ConsistentRead:
		return c.consistentRead(ctx, err, r, into)
	}
	return err
}

// holds reports whether the cache can give the state of a revision, now or when it has come to it.
// The storage refuses a revision that it has compacted.
func (c *Cacher) holds(revision uint64) bool {
	if revision > c.engine.Revision() {
		return delegator.ConsistentReadSupported()
	}
	return revision >= c.engine.Oldest() && revision >= uint64(max(0, c.config.Storage.CompactRevision()))
}

// consistentRead counts a consistent read that ended with err. If the cache was not fresh in time,
// the client is to try again, or by an older rule the storage answers.
func (c *Cacher) consistentRead(ctx context.Context, err error, r *listRequest, into runtime.Object) error {
	fallback := "false"
	if storage.IsTooLargeResourceVersion(err) && ctx.Err() == nil { // there is time for another try
		if c.features.noFallback {
			fallback = "skipped"
			err = apierrors.NewTooManyRequests(err.Error(), retryFresh)
		} else {
			fallback = "true"
			err = c.config.Storage.GetList(ctx, r.key, r.opts, into)
		}
	}
	c.metrics.consistentRead(err == nil, fallback)
	return err
}

// list answers from the cache.
func (c *Cacher) list(ctx context.Context, r *listRequest, into runtime.Object) error {
	if _, err := c.ready.admit(ctx); err != nil {
		return err
	}
	values, err := itemsOf(into)
	if err != nil {
		return err
	}
	q := r.query(c.indexes)
	c.indexes.planner.Prepare(q)
	state, err := c.state(ctx, r)
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
		if err := c.form.Fill(item.Value, values.Index(i)); err != nil {
			return err
		}
		last = item.Key
	}
	count := int64(len(answer.Items) + answer.Rest)
	token, remaining, err := storage.PrepareContinueToken(last, r.key, int64(state.Revision()), count, answer.More, r.opts)
	if err != nil {
		return err
	}
	if err := c.config.Versioner.UpdateList(into, state.Revision(), token, remaining); err != nil {
		return err
	}
	if c.features.shards {
		r.opts.Predicate.SetShardInfoOnList(into)
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

// state returns the state that a list reads. The error is a 410 if the history does not
// reach back to it.
func (c *Cacher) state(ctx context.Context, r *listRequest) (*dispatch.Snapshot, error) {
	if r.consistent {
		now, err := c.config.Storage.GetCurrentResourceVersion(ctx)
		if err != nil {
			return nil, err
		}
		r.revision = now
	}
	if err := c.waiter.untilFresh(ctx, r.revision); err != nil {
		return nil, err
	}
	if !r.exact {
		return c.engine.Snapshot(), nil
	}
	state, ok := c.engine.At(r.revision)
	if !ok {
		return nil, apierrors.NewResourceExpired(fmt.Sprintf("resource version %d is too old: the cache goes back to %d", r.revision, c.engine.Oldest()))
	}
	return state, nil
}
