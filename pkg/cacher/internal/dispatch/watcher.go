// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"context"
	"iter"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/tarn-dev/tarn/pkg/cacher/internal/element"
)

// Watch is what is asked of a dispatcher: which events, from where on.
type Watch struct {
	// Filter wants the objects that the watch is about.
	Filter *element.Filter
	// Scope is what the filter is known to want at most.
	Scope Scope
	// Begin is where the watch begins.
	Begin *Beginning
	// Generation is the generation of the cache in which Begin was found.
	Generation int
}

// Beginning is where a watch begins. It belongs to the watcher.
type Beginning struct {
	// State is what the watcher looks at first; nil if it is sent events alone. The watcher
	// lets it go when its reader does not read, and takes it from the history again.
	State *Snapshot
	// Objects walks the objects of a state, from a key on, among which are all that the filter
	// wants.
	Objects func(state *Snapshot, from string) iter.Seq[Item]
	// StreamsList says that the watch stands for a list: a bookmark says where the state ends.
	StreamsList bool
	// Position is the position of the first event to look at.
	Position uint64
	// Revision is the revision of the state. Events up to it are not for the watcher.
	Revision uint64
}

// watcher is one watch. It begins catching up: a goroutine of its own sends the initial state and
// the events since then. When it has caught up it follows: the dispatcher puts events into
// its channel, until that is full. Then it catches up again.
type watcher struct {
	dispatcher *Dispatcher
	filter     *element.Filter

	result chan watch.Event
	done   chan struct{} // closed when it is to end
	since  uint64        // events up to this revision are not for it
	forget func() bool   // stops to watch the context of the request
	told   bool          // why it ended; the goroutine of a watcher that catches up has it

	// Guarded by the lock of the dispatcher.
	address  address
	state    watcherState
	expired  bool // the events that come next are not kept any more
	handover      // where it began to follow
}

// watcherState says which goroutine sends to the reader of a watcher.
type watcherState int8

const (
	catchingUp watcherState = iota // its own goroutine does
	following                      // the dispatcher does
	ended                          // nobody does any more
)

// handover is where a watcher began to follow.
type handover struct {
	from    uint64 // events before this position were sent
	reached uint64 // the highest revision that was sent then
}

var _ watch.Interface = (*watcher)(nil)

// resultSize lets a watcher that is scheduled late keep what comes meanwhile.
const resultSize = 16

// Start takes a watcher in and begins to send. It ends with ctx, by its Stop, by TerminateAll and
// when the history has passed it. ok is false if the cache is not in the generation of the watch
// any more.
func (d *Dispatcher) Start(ctx context.Context, asked Watch) (started watch.Interface, ok bool) {
	w := d.newWatcher(asked)
	return w, d.start(ctx, w, asked)
}

func (d *Dispatcher) newWatcher(asked Watch) *watcher {
	return &watcher{
		dispatcher: d,
		filter:     asked.Filter,
		result:     make(chan watch.Event, resultSize),
		done:       make(chan struct{}),
		since:      asked.Begin.Revision,
		address:    d.following.address(asked),
	}
}

func (d *Dispatcher) start(ctx context.Context, w *watcher, asked Watch) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.admit(asked.Generation) {
		return false
	}
	d.watchers[w] = struct{}{}
	if asked.Filter.Predicate.AllowWatchBookmarks {
		deadline, _ := ctx.Deadline()
		d.bookmarks.add(bookmarkPlan{watcher: w, deadline: deadline})
	}
	w.forget = context.AfterFunc(ctx, w.Stop)
	d.catchingUp.Go(func() { w.run(ctx, asked.Begin) })
	return true
}

// ResultChan implements watch.Interface. It is closed when the watch has ended.
func (w *watcher) ResultChan() <-chan watch.Event { return w.result }

// Stop implements watch.Interface.
func (w *watcher) Stop() {
	w.dispatcher.mu.Lock()
	defer w.dispatcher.mu.Unlock()
	w.stopLocked()
}

// stopLocked ends the watch. The channel is closed by whoever sends into it: by the watcher's
// own goroutine if it catches up.
func (w *watcher) stopLocked() {
	if w.state == ended {
		return
	}
	follows := w.state == following
	if follows {
		w.leaveLocked()
	}
	w.state = ended
	close(w.done)
	w.forget()
	delete(w.dispatcher.watchers, w)
	w.dispatcher.bookmarks.remove(w)
	if follows {
		close(w.result)
	}
}

// leaveLocked lets the dispatcher give it no more events.
func (w *watcher) leaveLocked() {
	w.state = catchingUp
	w.dispatcher.following.remove(w)
}

// offerLocked gives an event to a watcher that follows. If it cannot take it, it falls behind.
func (w *watcher) offerLocked(shared *watchEvent, position uint64) {
	if shared.revision() <= w.since {
		return
	}
	event, ok, err := shared.seenBy(w.filter)
	switch {
	case err != nil:
		w.fallBehindLocked(position) // to be told: that may take time
		return
	case !ok:
		return
	}
	select {
	case w.result <- event:
	default:
		w.fallBehindLocked(position)
	}
}

// offerBookmarkLocked gives a bookmark to a watcher that follows, if it can take it at once.
func (w *watcher) offerBookmarkLocked(bookmark watch.Event) {
	bookmark.Object = bookmark.Object.DeepCopyObject()
	select {
	case w.result <- bookmark:
	default:
	}
}

// fallBehindLocked lets the watcher read the history from position on.
func (w *watcher) fallBehindLocked(position uint64) {
	w.leaveLocked()
	w.dispatcher.metrics.CatchingUp()
	w.dispatcher.catchingUp.Go(func() { w.catchUp(position) })
}

// expireLocked notes that the history has passed the watcher.
func (w *watcher) expireLocked() {
	if !w.expired {
		w.expired = true
		w.dispatcher.metrics.Expired()
	}
}
