// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"fmt"
	"iter"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/informers"
	"github.com/tarn-dev/tarn/pkg/reader"
)

// Iterate returns the objects that c.List would list, in the same order, but makes one object at a
// time: even of a kind with many objects only one is in memory. Each object belongs to the caller.
// All objects are from the state of the cache at the start of the walk. The caller may end the walk
// at any time.
//
//	for pod, err := range cache.Iterate(ctx, c, &corev1.Pod{}, client.InNamespace("default")) {
//
// The walk ends after an error; its errors are those of List. Iterate works only with a cache that
// this package made, and gives an error for any other.
func Iterate[T client.Object](ctx context.Context, c Cache, of T, opts ...client.ListOption) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		ours, ok := c.(*informerCache)
		if !ok {
			yield(none, fmt.Errorf("cannot iterate over a %T: pass a cache as New or With of package github.com/tarn-dev/tarn/pkg/cache made it", c))
			return
		}
		for obj, err := range ours.iterate(ctx, of, opts) {
			if err != nil {
				yield(none, err)
				return
			}
			if !yield(obj.(T), nil) {
				return
			}
		}
	}
}

func (c *informerCache) iterate(ctx context.Context, of client.Object, opts []client.ListOption) iter.Seq2[client.Object, error] {
	fail := func(err error) iter.Seq2[client.Object, error] {
		return func(yield func(client.Object, error) bool) { yield(nil, err) }
	}
	gvk, err := kindOf(of, c.scheme)
	if err != nil {
		return fail(err)
	}
	var o client.ListOptions
	var readers []*reader.CacheReader
	left := func() bool { return true }
	for again := true; again; again = err != nil && left() && o.Namespace == "" && ctx.Err() == nil {
		o = client.ListOptions{}
		readers, left, err = c.listReaders(ctx, informers.KeyOf(gvk, of), &o, opts)
	}
	switch {
	case err != nil && left() && o.Namespace != "":
		return fail(c.gone(ctx, gvk, client.ObjectKey{Namespace: o.Namespace}))
	case err != nil:
		return fail(err)
	}
	all := reader.Iterate(ctx, of, &o, readers...)
	return func(yield func(client.Object, error) bool) {
		for obj, err := range all {
			if !yield(obj, err) || err != nil {
				return
			}
		}
		if o.Namespace != "" && left() { // there may have been more
			yield(nil, c.gone(ctx, gvk, client.ObjectKey{Namespace: o.Namespace}))
		}
	}
}
