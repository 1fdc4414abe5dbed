// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"context"
	"iter"
	"reflect"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Iterate walks what [List] would list, in the same order and up to the same limit,
// and makes one object at a time, of the type of example. It may be stopped at any
// time; all objects are of the moment at which it began. After an error it ends.
func Iterate(ctx context.Context, example client.Object, opts *client.ListOptions, readers ...*CacheReader) iter.Seq2[client.Object, error] {
	return func(yield func(client.Object, error) bool) {
		selected, err := selectItems(ctx, opts, readers)
		if err != nil {
			yield(nil, err)
			return
		}
		countsOf(readers).Count(selected.plan)
		for _, it := range selected.each() {
			if ctx.Err() != nil {
				yield(nil, context.Cause(ctx))
				return
			}
			obj := reflect.New(reflect.TypeOf(example).Elem()).Interface().(client.Object)
			if err := it.from.write(it.Value, obj, opts.UnsafeDisableDeepCopy); err != nil {
				yield(nil, err)
				return
			}
			if !yield(obj, nil) {
				return
			}
		}
	}
}
