// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"context"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/clock"

	"github.com/tarn-dev/tarn/internal/watchcache"
	"github.com/tarn-dev/tarn/pkg/cacher/internal/element"
)

// Config is what a [Dispatcher] needs. All fields must be set but Triggers and Logger.
type Config struct {
	// Engine has the events.
	Engine *Engine
	// Form makes objects of the elements in the engine.
	Form *element.Form
	// Versioner writes the revision into bookmarks, and into deleted objects.
	Versioner storage.Versioner
	// NewObject makes the empty object of a bookmark.
	NewObject func() runtime.Object
	// Triggers has at most one field by whose value watchers are found.
	Triggers storage.IndexerFuncs
	// Admit reports whether the cache is ready and in the generation that a watch was asked
	// for in. It is called with the lock of the dispatcher.
	Admit func(generation int) bool
	// Clock tells when bookmarks are due.
	Clock clock.WithTicker
	// Metrics are told what happens to watchers.
	Metrics Metrics
	// Logger is for what no watcher can be told.
	Logger logr.Logger
}

// Metrics count what happens. The methods are called with the lock of the dispatcher.
type Metrics interface {
	// Dispatched counts an event that was given to all watchers that follow.
	Dispatched()
	// Parked counts a watcher that could not take an event at once.
	Parked()
	// Expired counts a watcher that the history has passed.
	Expired()
}

// Dispatcher gives events to the watchers. Its goroutine walks the history and puts each
// event into the channels of the watchers that it may concern, and never waits for any: a
// watcher whose channel is full is parked, which means that a goroutine of its own reads the
// history for it until it has caught up. So a watcher that has nothing to do has no goroutine,
// and a slow one delays nobody.
type Dispatcher struct {
	config  Config
	trigger *trigger // nil for none

	// mu is held while one event is dispatched. It comes before the engine's lock.
	mu        sync.Mutex
	position  uint64 // of the next event to dispatch
	revision  uint64 // up to which everything was dispatched, but
	within    bool   // not all events of revision
	watchers  map[*watcher]struct{}
	following *watcherIndex
	bookmarks bookmarkSchedule
	stopped   bool

	parked  sync.WaitGroup // the goroutines of watchers
	blocked blockedWatchers
}

// trigger is the field by whose value watchers are found.
type trigger struct {
	field string
	value storage.IndexerFunc
}

// New returns a dispatcher. It has no watchers, and dispatches when [Dispatcher.Run] is called.
func New(config Config) *Dispatcher {
	d := &Dispatcher{
		config:    config,
		watchers:  map[*watcher]struct{}{},
		following: newWatcherIndex(),
	}
	for field, value := range config.Triggers {
		if value != nil {
			d.trigger = &trigger{field, value}
		}
	}
	return d
}

// batch bounds how many events are copied out of the history at once.
const batch = 128

// Run dispatches until ctx ends.
func (d *Dispatcher) Run(ctx context.Context) {
	events := make([]event, batch)
	for {
		d.mu.Lock()
		position, revision := d.position, d.revision
		d.mu.Unlock()
		progress, err := d.config.Engine.WaitForEvents(ctx, position, revision)
		if err != nil {
			return
		}
		for position < progress.Position {
			n, next, ok := d.config.Engine.Events(position, events[:min(uint64(len(events)), progress.Position-position)])
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
func (d *Dispatcher) advance(position uint64, progress watchcache.Progress) {
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

// Reset goes on from the state of now, whose objects were replaced. There are no watchers then:
// they were terminated when the list-watch before had failed.
func (d *Dispatcher) Reset() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.terminateLocked()
	state := d.config.Engine.Snapshot()
	d.position, d.revision, d.within = state.Position(), state.Revision(), false
}

// dispatch gives one event to the watchers that follow. last says that it is the last event of
// its revision; before that one no watcher is told that the revision has passed.
func (d *Dispatcher) dispatch(position uint64, e *event, last bool) {
	triggers := d.triggers(e) // may make objects of elements
	shared := d.watchEvent(e)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.position != position {
		return // reset meanwhile
	}
	d.position++
	d.within = !last
	d.revision = max(d.revision, shared.revision()) // no bookmark goes behind what was sent
	newest := e.Item.Value
	if e.Type == watchcache.Deleted {
		newest = e.Previous.Value
	}
	namespace, _ := newest.Field(element.NamespaceField)
	name, _ := newest.Field(element.NameField)
	d.following.each(Scope{namespace, name}, triggers, func(w *watcher) {
		if position >= w.from {
			w.offerLocked(shared, position)
		}
	})
	d.config.Metrics.Dispatched()
}

// triggers returns the values of the trigger before and after the event.
func (d *Dispatcher) triggers(e *event) (values []string) {
	if d.trigger == nil {
		return nil
	}
	for _, of := range []*element.Element{e.Item.Value, e.Previous.Value} {
		if of == nil {
			continue
		}
		value, ok := of.Field(d.trigger.field)
		if !ok {
			obj, err := d.config.Form.Object(of)
			if err != nil {
				continue // the watchers that are given the event are told
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
// dispatcher. It returns false if the dispatcher is ahead of the watcher.
func (d *Dispatcher) follow(w *watcher, position, revision uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if position < d.position && w.state != ended {
		return false
	}
	w.from, w.reached = position, revision
	if w.state == ended {
		close(w.result)
		return true
	}
	w.state = following
	d.following.add(w)
	return true
}

// TerminateAll ends all watchers.
func (d *Dispatcher) TerminateAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.terminateLocked()
}

func (d *Dispatcher) terminateLocked() {
	for w := range d.watchers {
		w.stopLocked()
	}
}

// Stop ends all watchers, and returns when their goroutines have ended. No watcher can begin
// afterwards.
func (d *Dispatcher) Stop() {
	d.mu.Lock()
	d.stopped = true
	d.terminateLocked()
	d.mu.Unlock()
	d.parked.Wait()
}

// watchEvent returns an event of the engine as watchers see it.
func (d *Dispatcher) watchEvent(e *event) *watchEvent {
	return &watchEvent{form: d.config.Form, versioner: d.config.Versioner, event: e}
}
