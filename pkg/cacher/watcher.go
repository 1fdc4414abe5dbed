// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"time"

	"k8s.io/apimachinery/pkg/watch"
)

// watcher is one watch. It begins parked: a goroutine of its own sends the initial state and
// the events since then. When it has caught up it follows: the dispatcher puts events into
// its channel, until that is full, which parks it again.
type watcher struct {
	dispatcher *dispatcher
	filter     *filter
	scope      scope
	trigger    string
	triggered  bool // it is found by the trigger

	result         chan watch.Event
	done           chan struct{} // closed when it is to end
	since          uint64        // events up to this revision are not for it
	deadline       time.Time     // zero for none
	wantsBookmarks bool
	forget         func() bool // stops to watch the context of the request

	// Guarded by dispatcher.mu.
	following bool
	stopped   bool
	behind    bool   // the events that come next are not kept any more
	from      uint64 // where it began to follow: events before it were sent
	reached   uint64 // the highest revision that was sent then
	place     int    // in its group

	told         bool // why it ended; the goroutine of a parked watcher has it
	lastBookmark bool // that before the deadline is in the timetable, or was
}

var _ watch.Interface = (*watcher)(nil)

// resultSize lets a watcher that is scheduled late keep what comes meanwhile.
const resultSize = 16

// ResultChan implements watch.Interface. It is closed when the watch has ended.
func (w *watcher) ResultChan() <-chan watch.Event { return w.result }

// Stop implements watch.Interface.
func (w *watcher) Stop() {
	w.dispatcher.mu.Lock()
	defer w.dispatcher.mu.Unlock()
	w.stopLocked()
}

// stopLocked ends the watch. The channel is closed by whoever sends into it: by the watcher's
// own goroutine if it is parked.
func (w *watcher) stopLocked() {
	if w.stopped {
		return
	}
	w.stopped = true
	close(w.done)
	w.forget()
	delete(w.dispatcher.watchers, w)
	if w.following {
		w.leaveLocked()
		close(w.result)
	}
}

func (w *watcher) leaveLocked() {
	w.following = false
	w.dispatcher.following.remove(w)
}

// offerLocked gives an event to a watcher that follows. If it cannot take it, it is parked.
func (w *watcher) offerLocked(o *occurrence, position uint64) {
	if o.revision() <= w.since {
		return
	}
	event, ok, err := o.seenBy(w.filter)
	switch {
	case err != nil:
		w.parkLocked(position) // to be told: that may take time
		return
	case !ok:
		return
	}
	select {
	case w.result <- event:
	default:
		w.parkLocked(position)
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

// parkLocked lets the watcher read the history from position on.
func (w *watcher) parkLocked(position uint64) {
	w.leaveLocked()
	w.dispatcher.cacher.metrics.parked()
	w.dispatcher.parked.Go(func() { w.catchUp(position) })
}
