// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"github.com/tarn-dev/tarn/internal/watchcache"
	"github.com/tarn-dev/tarn/pkg/cacher/internal/element"
)

// The engine of a Cacher, and what it consists of.
type (
	// Engine keeps the state and the history of one resource.
	Engine = watchcache.Engine[*element.Element, *Sharing]
	// Snapshot is a state of it.
	Snapshot = watchcache.Snapshot[*element.Element]
	// Item is one object in a state.
	Item = watchcache.Item[*element.Element]
	// Change is what is written into it. A [Sharing] must be attached to each.
	Change = watchcache.Change[*element.Element, *Sharing]

	event      = watchcache.Event[*element.Element, *Sharing]
	eventBatch = watchcache.Batch[*element.Element, *Sharing]
	cursor     = watchcache.Cursor[*element.Element, *Sharing] // it expires if it is too slow
)
