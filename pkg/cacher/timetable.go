// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import "time"

const (
	// bookmarkFrequency is how often a watcher gets a bookmark, at least.
	bookmarkFrequency = time.Minute
	// beforeDeadline is when a watcher that ends gets its last one.
	beforeDeadline = 2 * time.Second
)

// timetable says when watchers get their next bookmark. Times are rounded to seconds. It
// keeps watchers that have stopped until their time comes.
type timetable struct {
	begin  time.Time
	passed int64 // seconds since begin that were looked at
	slots  map[int64][]*watcher
}

// add enters w for its next bookmark after now, unless its deadline is too near, or it had the last one.
func (t *timetable) add(w *watcher, now time.Time) {
	next := now.Add(bookmarkFrequency)
	if last := w.deadline.Add(-beforeDeadline); !w.deadline.IsZero() && last.Before(next) {
		if last.Before(now) || w.lastBookmark {
			return
		}
		next, w.lastBookmark = last, true
	}
	if t.slots == nil {
		t.begin, t.slots = now, map[int64][]*watcher{}
	}
	second := max(t.passed+1, int64(next.Sub(t.begin)/time.Second))
	t.slots[second] = append(t.slots[second], w)
}

// due returns the watchers whose time has come, who are not in the timetable any more.
func (t *timetable) due(now time.Time) (watchers []*watcher) {
	if t.slots == nil {
		return nil
	}
	for until := int64(now.Sub(t.begin) / time.Second); t.passed < until; {
		t.passed++
		watchers = append(watchers, t.slots[t.passed]...)
		delete(t.slots, t.passed)
	}
	return watchers
}
