// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"context"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

// Notification is an event without its objects.
type Notification struct {
	Type watchcache.EventType
	// Key is the key of the object, as object.Key makes it.
	Key string
	// Revision is the revision of the write, or zero if it is not known.
	Revision uint64
	// Merged says that the notification stands for all that happened to the object between two states: the
	// informer has listed again, or the events came faster than they were taken.
	Merged bool
}

// Follow calls begun, and from then on see for each event, in the goroutine of the caller, until ctx ends. It
// makes no object, and nothing of the state of now is passed on. If see is slower than the events,
// Follow merges them, as it does for a handler. The error is the cause for which ctx ended.
func (i *Informer) Follow(ctx context.Context, begun func(), see func(Notification)) error {
	cursor := i.engine.MergingCursor(i.engine.Snapshot())
	defer cursor.Close()
	begun()
	for {
		batch, err := cursor.Next(ctx)
		if err != nil {
			return err
		}
		if batch.Diff != nil {
			for e := range batch.Diff.Events() {
				see(notificationOf(&e, true))
				if ctx.Err() != nil { // a Diff may be long
					return context.Cause(ctx)
				}
			}
		}
		for n := range batch.Events {
			see(notificationOf(&batch.Events[n], false))
		}
	}
}

func notificationOf(e *event, merged bool) Notification {
	return Notification{Type: e.Type, Key: e.Item.Key, Revision: e.Item.Revision, Merged: merged}
}
