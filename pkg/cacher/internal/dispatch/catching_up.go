// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"context"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

// The functions of this file run in the goroutine of a watcher that catches up. While it waits for its
// reader it holds the events in the channel, and the one that it is about to send. The following
// events it reads out of the history again, or out of the state that it began with. A reader that
// never reads is ended when the history has passed the next event.

// run sends the initial state and then catches up.
func (w *watcher) run(ctx context.Context, begin *Beginning) {
	if begin.State != nil && !(w.sendState(begin) && w.sendEndOfState(begin)) {
		w.end()
		return
	}
	utilflowcontrol.WatchInitialized(ctx)
	w.catchUp(begin.Position)
}

// sendState sends the objects of the state. It returns false if the watch has ended.
func (w *watcher) sendState(begin *Beginning) bool {
	from := ""
	for {
		waiting, key, ok := w.sendStateFrom(begin, from)
		begin.State = nil // it would hold the old versions of what is changed until the reader comes back
		if waiting.Object == nil || !ok {
			return ok
		}
		if !w.await(waiting, begin.Position, nil) {
			return false
		}
		if begin.State, ok = w.dispatcher.engine.At(begin.Revision); !ok {
			w.expire(begin.Position)
			return false
		}
		from = watchcache.After(key)
	}
}

// sendStateFrom sends the objects of the state from a key on. An event for which the reader
// lets the watcher wait for long is returned, with its key. ok is false if the watch has ended.
func (w *watcher) sendStateFrom(begin *Beginning, from string) (waiting watch.Event, key string, ok bool) {
	patience := make(chan struct{}, 1)
	for item := range begin.Objects(begin.State, from) {
		seen, ok, err := w.see(&event{Type: watchcache.Added, Item: item})
		switch {
		case err != nil:
			w.fail(err, begin.Position)
			return watch.Event{}, "", false
		case !ok || w.offer(seen) || w.await(seen, begin.Position, patience):
		case w.hasEnded():
			return watch.Event{}, "", false
		default:
			return seen, item.Key, true
		}
	}
	return watch.Event{}, "", true
}

// sendEndOfState sends the bookmark behind the state, if the watch stands for a list. It returns
// false if the watch has ended.
func (w *watcher) sendEndOfState(begin *Beginning) bool {
	if !begin.StreamsList {
		return true
	}
	bookmark, err := w.dispatcher.maker.bookmark(begin.Revision)
	if err == nil {
		err = storage.AnnotateInitialEventsEndBookmark(bookmark.Object)
	}
	if err != nil {
		w.fail(err, begin.Position)
		return false
	}
	return w.offer(bookmark) || w.await(bookmark, begin.Position, nil)
}

// catchUp sends events from position on, and ends when the watcher follows or has ended.
func (w *watcher) catchUp(position uint64) {
	reached := w.since
	cursor := w.dispatcher.engine.ExpiringCursor(position, resultSize)
	for {
		next, err := cursor.Poll()
		if err != nil {
			w.expire(position)
			w.end()
			return
		}
		if len(next.Events) == 0 && w.dispatcher.follow(w, next.Position, reached) {
			return
		}
		var ok bool
		if position, reached, ok = w.sendSome(next, reached); !ok {
			w.end()
			return
		}
		cursor.Seek(position)
	}
}

// sendSome sends events of a batch until it had to wait for its reader. It returns the position
// that comes next and the highest revision up to there; ok is false if the watch has ended.
func (w *watcher) sendSome(from eventBatch, reached uint64) (next, highest uint64, ok bool) {
	defer clear(from.Events)
	for i := range from.Events {
		e := &from.Events[i]
		next, reached = e.Position+1, max(reached, e.Item.Revision)
		if e.Item.Revision <= w.since {
			continue
		}
		seen, wanted, err := w.see(e)
		switch {
		case err != nil:
			w.fail(err, next)
			return next, reached, false
		case wanted && !w.offer(seen):
			clear(from.Events) // it holds no other while it waits
			return next, reached, w.await(seen, next, nil)
		}
	}
	return from.Position, reached, true
}

// see returns what the watcher sees of an event; ok is false if that is nothing.
func (w *watcher) see(e *event) (seen watch.Event, ok bool, err error) {
	return w.dispatcher.maker.watchEvent(e).seenBy(w.filter)
}

// offer sends an event if there is room for it.
func (w *watcher) offer(event watch.Event) bool {
	select {
	case w.result <- event:
		return true
	default:
		return false
	}
}

// await sends an event when there is room for it. It returns false if the watch has ended,
// maybe because the history has passed position, or if something came from patience first.
func (w *watcher) await(event watch.Event, position uint64, patience chan struct{}) bool {
	w.dispatcher.catchingUp.add(w, position, patience)
	defer w.dispatcher.catchingUp.remove(w)
	select {
	case w.result <- event:
		return true
	case <-w.done:
	case <-patience:
	}
	return false
}

func (w *watcher) hasEnded() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// fail sends an error and ends the watch.
func (w *watcher) fail(err error, position uint64) {
	event := errorEvent(err)
	w.told = w.offer(event) || w.await(event, position, nil)
	w.Stop()
}

// expire tells the reader that the event at position is not kept any more.
func (w *watcher) expire(position uint64) {
	w.dispatcher.mu.Lock()
	w.expireLocked()
	w.dispatcher.mu.Unlock()
	w.fail(errExpired, position)
}

// end closes the channel of a watch that has ended. A reader whose watcher expired while the
// channel was full finds it closed behind what is in it, and is told 410 when it comes back.
func (w *watcher) end() {
	w.dispatcher.mu.Lock()
	expired := w.expired
	w.dispatcher.mu.Unlock()
	if expired && !w.told {
		w.offer(errorEvent(errExpired))
	}
	close(w.result)
}
