// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"context"
	"errors"
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
	// CatchingUp counts a watcher that could not take an event at once.
	CatchingUp()
	// Expired counts a watcher that the history has passed.
	Expired()
}

// Dispatcher gives events to the watchers. Its goroutine walks the history and puts each
// event into the channels of the watchers that it may concern, and never waits for any: a
// watcher whose channel is full catches up: a goroutine of its own reads the
// history for it until it has caught up. So a watcher that has nothing to do has no goroutine,
// and a slow one delays nobody.
type Dispatcher struct {
	engine  *Engine
	maker   *maker
	metrics Metrics
	logger  logr.Logger

	// mu is held while one event is dispatched. It comes before the engine's lock.
	mu         sync.Mutex
	cursor     *cursor // of the goroutine; another one after a reset
	dispatched         // how far it has come
	watchers   map[*watcher]struct{}
	following  *watcherIndex
	bookmarks  *bookmarkSchedule
	admit      func(generation int) bool

	catchingUp *slowWatchers
}

// dispatched is how far a dispatcher has come.
type dispatched struct {
	position uint64 // behind the event that was dispatched last
	revision uint64 // up to which everything was dispatched, but
	within   bool   // not all events of revision
}

// New returns a dispatcher. It has no watchers, and dispatches when [Dispatcher.Run] is called.
func New(config Config) *Dispatcher {
	d := &Dispatcher{
		engine:     config.Engine,
		maker:      &maker{form: config.Form, versioner: config.Versioner, newObject: config.NewObject},
		metrics:    config.Metrics,
		logger:     config.Logger,
		cursor:     config.Engine.ExpiringCursor(0, batch),
		watchers:   map[*watcher]struct{}{},
		following:  newWatcherIndex(),
		bookmarks:  newBookmarkSchedule(config.Clock),
		admit:      config.Admit,
		catchingUp: &slowWatchers{blocked: map[*watcher]blockedWatcher{}},
	}
	for field, value := range config.Triggers {
		if value != nil {
			d.following.trigger = &trigger{field, value, config.Form}
		}
	}
	return d
}

// batch bounds how many events are copied out of the history at once.
const batch = 128

// Run dispatches until ctx ends.
func (d *Dispatcher) Run(ctx context.Context) {
	for {
		d.mu.Lock()
		cursor := d.cursor
		d.mu.Unlock()
		next, err := cursor.Next(ctx)
		switch {
		case errors.Is(err, watchcache.ErrExpired):
			d.expired(cursor)
			continue
		case err != nil:
			return
		}
		for i := range next.Events {
			// advance knows what comes behind the last event of the batch.
			last := i+1 < len(next.Events) && next.Events[i+1].Item.Revision != next.Events[i].Item.Revision
			d.dispatch(&next.Events[i], last)
		}
		d.advance(cursor, next.Revision)
	}
}

// advance notes that everything up to revision was dispatched, unless the dispatcher was reset
// meanwhile, or is still within a higher revision.
func (d *Dispatcher) advance(of *cursor, revision uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cursor == of && revision >= d.revision {
		d.revision, d.within = revision, false
	}
}

// expired goes on from the state of now, unless the dispatcher was reset meanwhile: the events
// that come next are not kept any more.
func (d *Dispatcher) expired(of *cursor) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cursor == of {
		d.resetLocked()
	}
}

// Reset goes on from the state of now, whose objects were replaced. There are no watchers then:
// they were terminated when the list-watch before had failed.
func (d *Dispatcher) Reset() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.resetLocked()
}

func (d *Dispatcher) resetLocked() {
	d.terminateLocked()
	state := d.engine.Snapshot()
	d.cursor = d.engine.ExpiringCursor(state.Position(), batch)
	d.position, d.revision, d.within = state.Position(), state.Revision(), false
}

// dispatch gives one event to the watchers that follow. last says that it is the last event of its
// revision; watchers are not told before it that the revision has passed.
func (d *Dispatcher) dispatch(e *event, last bool) {
	triggers := d.following.trigger.values(e) // may make objects of elements
	shared := d.maker.watchEvent(e)
	d.mu.Lock()
	defer d.mu.Unlock()
	if e.Position < d.position {
		return // reset meanwhile
	}
	d.position = e.Position + 1
	d.within = !last
	d.revision = max(d.revision, shared.revision()) // no bookmark goes behind what was sent
	newest := e.Item.Value
	if e.Type == watchcache.Deleted {
		newest = e.Previous.Value
	}
	namespace, _ := newest.Field(element.NamespaceField)
	name, _ := newest.Field(element.NameField)
	d.following.each(Scope{namespace, name}, triggers, func(w *watcher) {
		if e.Position >= w.from {
			w.offerLocked(shared, e.Position)
		}
	})
	d.metrics.Dispatched()
}

// follow gives a watcher the events of the dispatcher from position on. The watcher has all events
// before it. It returns false if the dispatcher is ahead of the watcher.
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
	d.admit = func(int) bool { return false }
	d.terminateLocked()
	d.mu.Unlock()
	d.catchingUp.Wait()
}
