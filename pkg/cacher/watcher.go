// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"context"
	"errors"
	"iter"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"

	"github.com/tarn-dev/tarn/pkg/watchcache"
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
	from      uint64 // where it began to follow: events before it were sent
	reached   uint64 // the highest revision that was sent then
	place     int    // in its group

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

// run sends the initial state and then catches up.
func (w *watcher) run(ctx context.Context, begin beginning) {
	if !w.sendInitial(begin) {
		close(w.result)
		return
	}
	utilflowcontrol.WatchInitialized(ctx)
	w.catchUp(begin.position)
}

// beginning is where a watch begins.
type beginning struct {
	state    iter.Seq[watchcache.Item[*element]] // to look at first; nil for none
	position uint64                              // of the first event to look at
	revision uint64                              // events up to it are not for the watcher
	bookmark bool                                // says that all of the state was sent
}

// sendInitial returns false if the watch has ended.
func (w *watcher) sendInitial(begin beginning) bool {
	if begin.state == nil {
		return true
	}
	for item := range begin.state {
		if !w.show(&watchcache.Event[*element]{Type: watchcache.Added, Item: item}) {
			return false
		}
	}
	if !begin.bookmark {
		return true
	}
	bookmark, err := w.dispatcher.cacher.bookmark(begin.revision)
	if err == nil {
		err = storage.AnnotateInitialEventsEndBookmark(bookmark.Object)
	}
	if err != nil {
		w.fail(err)
		return false
	}
	return w.send(bookmark)
}

var errLeftBehind = errors.New("the watcher was too slow: the events that come next are not kept any more")

// catchUp sends events from position on, and ends when the watcher follows or has ended.
func (w *watcher) catchUp(position uint64) {
	reached := w.since
	events := make([]watchcache.Event[*element], resultSize)
	for {
		n, next, ok := w.dispatcher.cacher.engine.Events(position, events)
		if !ok {
			w.dispatcher.cacher.metrics.leftBehind()
			w.fail(apierrors.NewResourceExpired(errLeftBehind.Error()))
			close(w.result)
			return
		}
		if n == 0 && w.dispatcher.follow(w, position, reached) {
			return
		}
		for i := range events[:n] {
			if !w.sendEvent(&events[i]) {
				close(w.result)
				return
			}
			reached = max(reached, events[i].Item.Revision)
		}
		clear(events[:n])
		position = next
	}
}

// sendEvent sends one event of the history. It returns false if the watch has ended.
func (w *watcher) sendEvent(event *watchcache.Event[*element]) bool {
	if event.Item.Revision <= w.since {
		return true
	}
	return w.show(event)
}

// show sends what the watcher sees of an event. It returns false if the watch has ended.
func (w *watcher) show(event *watchcache.Event[*element]) bool {
	seen, ok, err := w.dispatcher.cacher.occurrence(event).seenBy(w.filter)
	switch {
	case err != nil:
		w.fail(err)
		return false
	case !ok:
		return true
	}
	return w.send(seen)
}

// send returns false if the watch has ended.
func (w *watcher) send(event watch.Event) bool {
	select {
	case w.result <- event:
		return true
	case <-w.done:
		return false
	}
}

// fail sends an error and ends the watch.
func (w *watcher) fail(err error) {
	w.send(errorEvent(err))
	w.Stop()
}
