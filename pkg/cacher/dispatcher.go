// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

// dispatcher gives events to the watchers. Its goroutine walks the history and puts each
// event into the channels of those whom it may concern, and never waits for any: a watcher
// whose channel is full is parked, which means that a goroutine of its own reads the history
// for it until it has caught up. So a watcher that has nothing to do has no goroutine, and a
// slow one delays nobody.
type dispatcher struct {
	cacher  *Cacher
	trigger *trigger

	// mu is held while one event is dispatched. It comes before the engine's lock.
	mu        sync.Mutex
	position  uint64 // of the next event to dispatch
	revision  uint64 // up to which everything was dispatched, but
	within    bool   // not all events of revision
	watchers  map[*watcher]struct{}
	following *interest
	bookmarks timetable
	stopped   bool

	parked  sync.WaitGroup // the goroutines of watchers
	blocked blockedWatchers
}

// trigger is the field by whose value watchers are found.
type trigger struct {
	field string
	value storage.IndexerFunc
}

func newDispatcher(c *Cacher) *dispatcher {
	d := &dispatcher{
		cacher:    c,
		watchers:  map[*watcher]struct{}{},
		following: newInterest(),
	}
	for field, value := range c.config.IndexerFuncs {
		if value != nil {
			d.trigger = &trigger{field, value}
		}
	}
	return d
}

// dispatchBatch bounds how many events are copied out of the history at once.
const dispatchBatch = 128

// run dispatches until ctx ends.
func (d *dispatcher) run(ctx context.Context) {
	events := make([]watchcache.Event[*element, *sharing], dispatchBatch)
	for {
		d.mu.Lock()
		position, revision := d.position, d.revision
		d.mu.Unlock()
		progress, err := d.cacher.engine.WaitForEvents(ctx, position, revision)
		if err != nil {
			return
		}
		for position < progress.Position {
			n, next, ok := d.cacher.engine.Events(position, events[:min(uint64(len(events)), progress.Position-position)])
			if !ok {
				break
			}
			for i := range events[:n] {
				last := position+uint64(i)+1 == progress.Position ||
					i+1 < n && events[i+1].Item.Revision != events[i].Item.Revision
				d.dispatch(position+uint64(i), &events[i], last)
			}
			clear(events[:n])
			position = next
		}
		d.advance(position, progress)
	}
}

// advance notes that everything up to progress was dispatched, if position is there.
func (d *dispatcher) advance(position uint64, progress watchcache.Progress) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.position != position: // reset meanwhile
	case position == progress.Position:
		d.revision, d.within = max(d.revision, progress.Revision), false
	default: // the events that come next are not there any more
		d.terminateLocked()
		d.position, d.revision, d.within = progress.Position, progress.Revision, false
	}
}

// reset begins at the state of now. There are no watchers then: they were terminated when the
// list-watch before had failed.
func (d *dispatcher) reset() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.terminateLocked()
	state := d.cacher.engine.Snapshot()
	d.position, d.revision, d.within = state.Position(), state.Revision(), false
}

// dispatch gives one event to the watchers that follow. It is the last one of its revision, or
// others follow, before which nobody is told that the revision has passed.
func (d *dispatcher) dispatch(position uint64, event *watchcache.Event[*element, *sharing], last bool) {
	triggers := d.triggers(event) // may materialize objects
	o := d.cacher.occurrence(event)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.position != position {
		return // reset meanwhile
	}
	d.position++
	d.within = !last
	d.revision = max(d.revision, o.revision()) // no bookmark goes behind what was sent
	newest := event.Item.Value
	if event.Type == watchcache.Deleted {
		newest = event.Previous.Value
	}
	d.following.each(newest.fields.Get(namespaceField), newest.fields.Get(nameField), triggers, func(w *watcher) {
		if position >= w.from {
			w.offerLocked(o, position)
		}
	})
	d.cacher.metrics.dispatched()
}

const (
	nameField      = "metadata.name"
	namespaceField = "metadata.namespace"
)

// triggers returns the values of the trigger before and after the event.
func (d *dispatcher) triggers(event *watchcache.Event[*element, *sharing]) (values []string) {
	if d.trigger == nil {
		return nil
	}
	for _, e := range []*element{event.Item.Value, event.Previous.Value} {
		if e == nil {
			continue
		}
		value := e.fields.Get(d.trigger.field)
		if !e.fields.Has(d.trigger.field) {
			obj, err := d.cacher.elements.object(e)
			if err != nil {
				continue // those who are given the event are told
			}
			value = d.trigger.value(obj)
		}
		if len(values) == 0 || values[0] != value {
			values = append(values, value)
		}
	}
	return values
}

// follow lets a watcher that has all events before position have those that come from the
// dispatcher. It returns false if the dispatcher is ahead.
func (d *dispatcher) follow(w *watcher, position, revision uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if position < d.position && !w.stopped {
		return false
	}
	w.from, w.reached = position, revision
	if w.stopped {
		close(w.result)
		return true
	}
	w.following = true
	d.following.add(w)
	return true
}

// terminateAll ends all watchers.
func (d *dispatcher) terminateAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.terminateLocked()
}

func (d *dispatcher) terminateLocked() {
	for w := range d.watchers {
		w.stopLocked()
	}
}

// wait waits for the goroutines of the watchers, after the Cacher was stopped.
func (d *dispatcher) wait() {
	d.mu.Lock()
	d.stopped = true
	d.terminateLocked()
	d.mu.Unlock()
	d.parked.Wait()
}

// roundEvery is how often is looked whose bookmark is due, and who does not read.
const roundEvery = time.Second

// runRounds looks after the watchers until ctx ends.
func (d *dispatcher) runRounds(ctx context.Context) {
	ticker := d.cacher.config.Clock.NewTicker(roundEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C():
			d.sendBookmarks(d.cacher.config.Clock.Now())
			d.lookAtBlocked()
		case <-ctx.Done():
			return
		}
	}
}

// sendBookmarks sends those that are due. A parked watcher gets none: it has events to read.
func (d *dispatcher) sendBookmarks(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.within { // in the next round
		return
	}
	var bookmark *watch.Event
	for _, w := range d.bookmarks.due(now) {
		if w.stopped {
			continue
		}
		d.bookmarks.add(w, now)
		if !w.following || d.revision < w.reached || d.revision <= w.since { // it knows, or has more to read
			continue
		}
		if bookmark == nil {
			made, err := d.cacher.bookmark(d.revision)
			if err != nil {
				d.cacher.config.Logger.Error(err, "Cannot make a bookmark", "resource", d.cacher.config.GroupResource)
				continue
			}
			bookmark = &made
		}
		w.offerBookmarkLocked(*bookmark)
	}
}

// bookmark returns the event that says that everything up to revision was sent.
func (c *Cacher) bookmark(revision uint64) (watch.Event, error) {
	obj := c.config.NewFunc()
	err := c.config.Versioner.UpdateObject(obj, revision)
	return watch.Event{Type: watch.Bookmark, Object: obj}, err
}
