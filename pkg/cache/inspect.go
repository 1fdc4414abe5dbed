// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"cmp"
	"context"
	"slices"

	"github.com/tarn-dev/tarn/pkg/informers"
)

// The methods of this file are what package inspect shows a cache by.

// Name returns the value of the label "cache" in the metrics of the cache.
func (c *informerCache) Name() string { return c.maps()[0].Name() }

// Started reports whether Start was called.
func (c *informerCache) Started() bool { return c.life.started.Load() }

// Informers returns the informers that there are, those of a kind after each other. It starts none.
func (c *informerCache) Informers() []*informers.MapEntry {
	var all []*informers.MapEntry
	for _, m := range c.maps() {
		all = append(all, m.Entries()...)
	}
	slices.SortFunc(all, func(a, b *informers.MapEntry) int {
		x, y := a.Key(), b.Key()
		return cmp.Or(cmp.Compare(x.Group, y.Group), cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Version, y.Version),
			cmp.Compare(x.Representation, y.Representation), cmp.Compare(a.Namespace(), b.Namespace()))
	})
	return all
}

// Go runs f in a goroutine of a cache that is started: Start waits for it, so f must return when its
// context ends. If the cache has ended, f is not run.
func (c *informerCache) Go(f func(context.Context)) { c.maps()[0].Go(f) }
