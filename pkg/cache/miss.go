// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/live"
	"github.com/tarn-dev/tarn/internal/metrics"
	"github.com/tarn-dev/tarn/pkg/informers"
)

// OutsideScopeError is the error of a read of what the cache does not hold, whether or not the API
// server has it. Match a pointer to this type with errors.As.
//
// There are two cases. The cache does not hold the namespace: the error is not a NotFound error, as
// in controller-runtime. Or the cache's field selector, or Whole of its Tuning, excludes the name: then the error is a
// NotFound API error as well, as in controller-runtime. A label selector is not known to exclude an
// object that the cache has not seen: such a read is NotFound alone, and its text names the selector.
type OutsideScopeError struct {
	// GVK is the kind that was read.
	GVK schema.GroupVersionKind
	// Key is what was read. A list has no Name.
	Key client.ObjectKey
	// Scope says what the cache holds of the kind, for messages.
	Scope string

	err error
}

// Error implements error.
func (e *OutsideScopeError) Error() string { return e.err.Error() }

// Unwrap returns the error that says so; it may be a NotFound API error.
func (e *OutsideScopeError) Unwrap() error { return e.err }

// ReadThrough returns an option of Get: an object that the cache does not hold is read from the API
// server, and so is one of which the cache holds a part, by Fields; as with [TuningByObject].ReadThrough, which says more. Other clients ignore the option.
func ReadThrough() client.GetOption { return readThrough{} }

type readThrough struct{}

// ApplyToGet implements client.GetOption. There is no field for it: the cache looks for the option.
func (readThrough) ApplyToGet(*client.GetOptions) {}

// readsThrough reports whether a Get of a kind with these options reads through.
func (c *informerCache) readsThrough(gvk schema.GroupVersionKind, opts []client.GetOption) bool {
	return asksThrough(opts) || ptr.Deref(c.tuning(gvk).ReadThrough, false)
}

// asksThrough reports whether ReadThrough is among the options.
func asksThrough(opts []client.GetOption) bool { return slices.Contains(opts, ReadThrough()) }

// holdsNoneWhole reports whether the cache holds a part of each object of a kind.
func (c *informerCache) holdsNoneWhole(gvk schema.GroupVersionKind) bool {
	tuned := c.tuning(gvk)
	return tuned.Fields != nil && tuned.Whole == nil
}

// misses answers reads of what the cache does not hold. Metrics may be nil.
type misses struct {
	live    *live.Reader
	metrics *metrics.Reads
}

func newMisses(ask func() (client.Reader, error), count *metrics.Reads) misses {
	return misses{
		live:    live.New(live.Options{Client: ask, Requested: count.Requested, Answered: count.Answered}),
		metrics: count,
	}
}

// answer returns the error of a Get that has failed with err. If the cache does not hold the object
// and the Get reads through, the object is read from the API server instead. In is the map that would
// hold the object; it is nil if there is none.
func (s misses) answer(ctx context.Context, in *informers.Map, id informers.Key, key client.ObjectKey, obj client.Object, through bool, err error) error {
	reason, err := missOf(in, id, key, err)
	if reason == "" {
		return err
	}
	s.metrics.Missed(id.GroupVersionKind, reason)
	if !through || key.Name == "" {
		return err
	}
	return s.through(ctx, in, id, key, obj)
}

// through reads an object from the API server. In is nil if no map is for its namespace.
func (s misses) through(ctx context.Context, in *informers.Map, id informers.Key, key client.ObjectKey, obj client.Object) error {
	begin := time.Now()
	err := s.read(ctx, in, live.Request{GVK: id.GroupVersionKind, Key: key}, obj)
	s.metrics.Live(metrics.Series{GroupVersionKind: id.GroupVersionKind, Representation: id.Representation.String()}, time.Since(begin))
	return err
}

// read reads an object from the API server, as the map would store and show it.
func (s misses) read(ctx context.Context, in *informers.Map, what live.Request, obj client.Object) error {
	if in == nil {
		return s.live.Get(ctx, what, obj)
	}
	what.Transform = in.Transform
	stored := in.Stored(what.GVK, obj)
	if err := s.live.Get(ctx, what, stored); err != nil {
		return err
	}
	return in.Show(stored, obj)
}

// missOf returns why a Get has failed with err, and the error that says so. The reason is empty if
// the cache could not say whether it holds the object.
func missOf(in *informers.Map, id informers.Key, key client.ObjectKey, err error) (metrics.Miss, error) {
	var (
		outside  *OutsideScopeError
		uncached *ErrResourceNotCached
	)
	switch {
	case errors.As(err, &outside):
		return metrics.MissOutside, err
	case errors.As(err, &uncached):
		return metrics.MissNotCached, err
	case !apierrors.IsNotFound(err):
		return "", err
	case in.Excludes(id.GroupVersionKind, key):
		return metrics.MissOutside, &OutsideScopeError{GVK: id.GroupVersionKind, Key: key, Scope: in.Describe(id.GroupVersionKind), err: err}
	}
	return metrics.MissNotFound, err
}
