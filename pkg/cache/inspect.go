// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/tarn-dev/tarn/internal/inspected"
	"github.com/tarn-dev/tarn/pkg/informers"
)

var _ inspected.Cache[*informers.MapEntry] = (*informerCache)(nil)

// Name implements inspected.Cache.
func (c *informerCache) Name() string { return c.kinds.maps()[0].Name() }

// Started implements inspected.Cache.
func (c *informerCache) Started() bool { return c.life.started.Load() }

// Informers implements inspected.Cache.
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

// Held implements inspected.Cache.
func (c *informerCache) Held(found func(by *informers.MapEntry, scope fmt.Stringer)) {
	if made := c.leases.made.Load(); made != nil {
		(*made).Held(found)
	}
}

// Controllers implements inspected.Cache.
func (c *informerCache) Controllers() []inspected.Controller {
	if made := c.leases.made.Load(); made != nil {
		return (*made).Controllers()
	}
	return nil
}

// Namespaces implements inspected.Cache.
func (c *informerCache) Namespaces() *inspected.Namespaces {
	n := c.kinds.live
	if n == nil {
		return nil
	}
	shown := &inspected.Namespaces{Count: len(n.kinds[0].now.Load().namespaces)}
	if n.selected != nil {
		n.selected.Show(shown)
	}
	return shown
}

// countNamespaces lets metrics show the namespaces that come and go. Metrics keep a cache in memory then, so it must have been started.
func (c *informerCache) countNamespaces() {
	if c.kinds.live == nil {
		return
	}
	c.kinds.live.metrics.Ask(func() (cached, members int) {
		shown := c.Namespaces()
		if shown.Ring == nil {
			return shown.Count, -1
		}
		return shown.Count, len(shown.Ring)
	})
}

// Go implements inspected.Cache.
func (c *informerCache) Go(f func(context.Context)) bool { return c.kinds.maps()[0].Go(f) }
