// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/tarn-dev/tarn/internal/inspected"
)

// ring holds the newest events within a bound in bytes, and how many there were of each type.
type ring struct {
	limit  int // bytes
	bytes  int
	newest uint64        // the number of the newest event
	number func() uint64 // returns the number of the next one, which is higher
	events []eventInfo   // in their order; what was cut off in front goes when the slice grows
	counts map[watch.EventType]uint64
}

// eventInfo is an event for people who look at it.
type eventInfo struct {
	Number          uint64          `json:"number"`
	Time            time.Time       `json:"time"`
	Type            watch.EventType `json:"type"`
	Namespace       string          `json:"namespace,omitempty"`
	Name            string          `json:"name"`
	ResourceVersion uint64          `json:"resourceVersion,omitempty"`
	// Merged says that the event stands for all that happened between two states.
	Merged bool `json:"merged,omitempty"`
}

// eventBytes is about what an event takes without its name and namespace.
const eventBytes = 112

func (e *eventInfo) size() int { return eventBytes + len(e.Namespace) + len(e.Name) }

// newRing returns a ring without events. Events of earlier rings have numbers up to newest.
func newRing(limit int, newest uint64, number func() uint64) ring {
	return ring{limit: limit, newest: newest, number: number, counts: map[watch.EventType]uint64{}}
}

// add adds an event, and drops the oldest ones if there is no room.
func (r *ring) add(now time.Time, c inspected.Change) {
	r.newest = r.number()
	r.counts[c.Type]++
	e := eventInfo{
		Number: r.newest, Time: now, Type: c.Type, Namespace: c.Key.Namespace, Name: c.Key.Name,
		ResourceVersion: c.Revision, Merged: c.Merged,
	}
	r.events = append(r.events, e)
	r.bytes += e.size()
	for r.bytes > r.limit {
		r.bytes -= r.events[0].size()
		r.events[0] = eventInfo{}
		r.events = r.events[1:]
	}
}

// after returns the events that are newer than the one with a number. A number above all comes from an
// earlier process: then all events are new.
func (r *ring) after(number uint64) []eventInfo {
	if number > r.newest {
		number = 0
	}
	first := len(r.events)
	for first > 0 && r.events[first-1].Number > number {
		first--
	}
	return append([]eventInfo{}, r.events[first:]...)
}
