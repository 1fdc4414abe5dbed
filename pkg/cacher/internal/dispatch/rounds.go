// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/watch"
)

// roundEvery is the time between two rounds. In a round the dispatcher sends the bookmarks that are
// due, and checks watchers whose readers do not read.
const roundEvery = time.Second

// RunRounds looks after the watchers once a second until ctx ends: it sends the bookmarks that
// are due, and ends watchers that the history has passed.
func (d *Dispatcher) RunRounds(ctx context.Context) {
	ticker := d.bookmarks.clock.NewTicker(roundEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C():
			d.sendBookmarks()
			d.checkBlocked()
		case <-ctx.Done():
			return
		}
	}
}

// sendBookmarks sends the bookmarks that are due. A watcher that catches up gets none: it has events to
// read.
func (d *Dispatcher) sendBookmarks() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.within { // in the next round
		return
	}
	var bookmark *watch.Event
	for _, w := range d.bookmarks.due() {
		d.bookmarks.add(w)
		if w.state != following || d.revision < w.reached || d.revision <= w.since { // it knows, or has more to read
			continue
		}
		if bookmark == nil {
			made, err := d.maker.bookmark(d.revision)
			if err != nil {
				d.logger.Error(err, "Cannot make a bookmark")
				continue
			}
			bookmark = &made
		}
		w.offerBookmarkLocked(*bookmark)
	}
}

// checkBlocked looks at watchers that wait for their readers. It ends a watcher if the history has
// passed its next event, and tells watchers that have waited since the round before.
func (d *Dispatcher) checkBlocked() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.catchingUp.round(func(w *watcher, position uint64) (waits bool) {
		if d.engine.Holds(position) || w.state == ended {
			return true
		}
		w.expireLocked()
		w.stopLocked()
		return false
	})
}
