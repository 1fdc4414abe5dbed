// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package ownwrites

import (
	"context"
	"errors"
	"time"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

// floor is a revision that the state must have reached before any key is read. It does not change.
type floor struct {
	revision uint64 // zero if the server must be asked for it
	asked    bool   // the server has said that it is as far
	history  int    // of the revision
	noted    time.Time
}

// floorPassed reports whether a state may be read.
func floorPassed[V any](f *floor, state *watchcache.Snapshot[V]) bool {
	return f == nil || f.revision > 0 && state.Restored() >= f.history && state.Revision() >= f.revision
}

func (o *Overlay[V]) newFloorLocked(revision uint64) *floor {
	return &floor{revision: revision, history: o.history, noted: time.Now()}
}

// Listed says that a list is in the engine, and that what was written up to a revision was not noted
// before the list was asked for: if the list is older, reads wait until the state has reached it.
func (o *Overlay[V]) Listed(written uint64) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	state := o.options.State()
	o.resumeLocked(state.Restored())
	f := o.newFloorLocked(written)
	if known := o.floor; o.life.Err() != nil || state.Revision() >= written || known != nil && (known.revision == 0 || known.revision >= written) {
		return
	}
	o.floor = f
	o.publishLocked()
}

// resumeLocked corrects the history if the source was not restored after all. What is in doubt is asked for
// again, because a list does not deny what it was not compared with.
func (o *Overlay[V]) resumeLocked(restored int) {
	if o.history <= restored {
		return
	}
	o.history = restored
	for _, e := range o.entries.all() {
		next := *e
		next.history = restored
		o.replaceLocked(e, &next)
	}
	o.changeDoubtsLocked(func(d *doubt) *doubt {
		return &doubt{prefix: d.prefix, number: d.number, noted: d.noted, history: restored}
	})
	if o.floor != nil {
		o.floor = o.newFloorLocked(o.floor.revision)
	}
	o.publishLocked()
}

// reach waits until the state has reached f, or f has turned out to be no revision of the server's.
func (r *reading[V]) reach(ctx context.Context, f *floor) error {
	o := r.overlay
	if f.asked {
		return r.waitFor(ctx, f.revision, f.history)
	}
	if f.revision > 0 {
		late, cancel := context.WithDeadline(ctx, f.noted.Add(patience))
		defer cancel()
		if o.options.Wait(late, f.revision, f.history) == nil {
			return nil
		}
	}
	if ctx.Err() != nil {
		return o.behind(ctx, f.revision)
	}
	_, err := r.once(ctx, floorFlight, func(ctx context.Context) ([]*Entry[V], error) {
		answer, err := o.options.Ask(ctx, "")
		if errors.Is(err, ErrNoRevision) {
			answer.Revision, err = 0, nil
		}
		if err == nil {
			o.askedFloor(f, answer.Revision)
		}
		return nil, err
	})
	return err
}

// askedFloor notes that the server was at a revision after f had been noted. If that is the lower one, the
// source was restored from a backup, and f says nothing any more. Zero says that the server does not tell.
func (o *Overlay[V]) askedFloor(f *floor, at uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.floor != f:
		return
	case at == 0:
		o.floor = nil
	case f.revision == 0:
		o.floor = &floor{revision: at, asked: true, history: f.history, noted: f.noted}
	case at < f.revision:
		o.floor = nil
	default:
		o.floor = &floor{revision: f.revision, asked: true, history: f.history, noted: f.noted}
	}
	o.publishLocked()
}
