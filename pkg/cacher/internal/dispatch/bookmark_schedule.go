// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"time"

	"k8s.io/utils/clock"
)

const (
	// BookmarkFrequency is the time after which a watcher gets a bookmark, at the latest.
	BookmarkFrequency = time.Minute
	// beforeDeadline is the time before its end at which a watcher gets its last bookmark.
	beforeDeadline = 2 * time.Second
)

// bookmarkPlan is when a watcher gets bookmarks.
type bookmarkPlan struct {
	*watcher
	deadline time.Time // of the watcher; zero for none
	last     bool      // the bookmark before the deadline is in the schedule, or was
}

// bookmarkSchedule says when watchers get their next bookmark. Times are rounded to seconds. It
// forgets watchers that have ended, because each keeps the context of its request.
type bookmarkSchedule struct {
	clock  clock.WithTicker
	begin  time.Time
	passed int64 // seconds since begin that were looked at
	slots  map[int64]map[*watcher]bookmarkPlan
	second map[*watcher]int64 // in which a watcher is
}

func newBookmarkSchedule(clock clock.WithTicker) *bookmarkSchedule {
	return &bookmarkSchedule{clock: clock, begin: clock.Now(), slots: map[int64]map[*watcher]bookmarkPlan{}, second: map[*watcher]int64{}}
}

// add enters a watcher for its next bookmark, unless its deadline is too near, or it had the last one.
func (s *bookmarkSchedule) add(plan bookmarkPlan) {
	now := s.clock.Now()
	next := now.Add(BookmarkFrequency)
	if last := plan.deadline.Add(-beforeDeadline); !plan.deadline.IsZero() && last.Before(next) {
		if last.Before(now) || plan.last {
			return
		}
		next, plan.last = last, true
	}
	second := max(s.passed+1, int64(next.Sub(s.begin)/time.Second))
	if s.slots[second] == nil {
		s.slots[second] = map[*watcher]bookmarkPlan{}
	}
	s.slots[second][plan.watcher] = plan
	s.second[plan.watcher] = second
}

// remove forgets a watcher.
func (s *bookmarkSchedule) remove(w *watcher) {
	delete(s.slots[s.second[w]], w)
	delete(s.second, w)
}

// due returns the watchers whose time has come, and takes them out of the schedule.
func (s *bookmarkSchedule) due() (watchers []bookmarkPlan) {
	for until := int64(s.clock.Since(s.begin) / time.Second); s.passed < until; {
		s.passed++
		for w, plan := range s.slots[s.passed] {
			watchers = append(watchers, plan)
			delete(s.second, w)
		}
		delete(s.slots, s.passed)
	}
	return watchers
}
