// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"slices"
	"time"

	"github.com/tarn-dev/tarn/internal/metrics"
	"github.com/tarn-dev/tarn/pkg/informers"
)

const (
	// slowAfter is how long a handler may take for an event, or wait for its turn, before it is called slow.
	slowAfter = 10 * time.Second
	// maxSlow is the number of slow handlers of a kind that are named.
	maxSlow = 3
)

// figures are the figures of one informer, or the sums of several. Counters begin with the informer.
type figures struct {
	Objects int `json:"objects"`
	// Bytes is about how much memory is taken, and Parts says for what.
	Bytes int            `json:"bytes"`
	Parts map[string]int `json:"parts,omitempty"`
	// ResourceVersion is the version up to which an informer has seen everything. Several have none in
	// common.
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// AgeSeconds is the time since the API server last told anything, of several the longest. It is not
	// known of informers that the user made, and before the first list.
	AgeSeconds *float64 `json:"ageSeconds,omitempty"`
	counters
	// Handlers is the number of event handlers. HandlerLag is how many events the slowest has still to
	// return from, and HandlerLagSeconds for how long.
	Handlers          int     `json:"handlers"`
	HandlerLag        uint64  `json:"handlerLag"`
	HandlerLagSeconds float64 `json:"handlerLagSeconds"`
	// Indexes is the number of indexes, and IndexHits how many lists these have answered.
	Indexes   int    `json:"indexes"`
	IndexHits uint64 `json:"indexHits"`
}

// counters are what comes in and goes out.
type counters struct {
	// Events are those that watches have sent, by type; Bookmarks are counted apart.
	Events    map[string]uint64 `json:"events,omitempty"`
	Bookmarks uint64            `json:"bookmarks"`
	// DecodeSeconds is the time that it took to decode so many objects of them.
	Decoded       uint64  `json:"decoded"`
	DecodeSeconds float64 `json:"decodeSeconds"`
	// Lists and WatchEnds are the lists that have begun and the watches that have ended, by reason.
	Lists     map[string]uint64 `json:"lists,omitempty"`
	WatchEnds map[string]uint64 `json:"watchEnds,omitempty"`
	// Reads are those of the program, by plan.
	Reads map[string]uint64 `json:"reads,omitempty"`
}

// handlerInfo is an event handler.
type handlerInfo struct {
	Namespace  string  `json:"namespace"`
	Type       string  `json:"type"`
	Synced     bool    `json:"synced"`
	Lag        uint64  `json:"lag"`
	LagSeconds float64 `json:"lagSeconds"`
	// Lagged is how often the handler was told of the changes between two states, because it was too
	// slow for the events.
	Lagged      uint64  `json:"lagged"`
	Calls       uint64  `json:"calls"`
	MeanSeconds float64 `json:"meanSeconds"`
}

// indexInfo is an index of an informer.
type indexInfo struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`  // "field:" or "label:" and the name
	Pairs     int    `json:"pairs"` // of a value and an object
	Bytes     int    `json:"bytes"`
	Hits      uint64 `json:"hits"`
}

// sample are the figures of an informer and the namespace to which it is restricted; empty for all.
type sample struct {
	metrics.Sample
	namespace string
}

func figuresOf(entry *informers.MapEntry, s *sample) figures {
	f := figures{Objects: entry.Len(), ResourceVersion: entry.ResourceVersion(), Parts: map[string]int{}}
	if age, known := entry.Age(); known {
		seconds := age.Seconds()
		f.AgeSeconds = &seconds
	}
	for part, bytes := range s.Memory {
		f.Parts[part] = bytes
		f.Bytes += bytes
	}
	f.counters = countersOf(s)
	if s.Informer != nil {
		f.Handlers = len(s.Informer.Handlers)
		for i := range s.Informer.Handlers {
			h := &s.Informer.Handlers[i]
			f.HandlerLag = max(f.HandlerLag, h.Behind)
			f.HandlerLagSeconds = max(f.HandlerLagSeconds, h.Since.Seconds())
		}
	}
	if s.Reads.Store != nil {
		f.Indexes = len(s.Reads.Store.Indexes)
		for i := range s.Reads.Store.Indexes {
			f.IndexHits += s.Reads.Store.Indexes[i].Hits
		}
	}
	return f
}

func countersOf(s *sample) counters {
	t := counters{Lists: map[string]uint64{}, WatchEnds: map[string]uint64{}, Reads: map[string]uint64{}}
	for reason, n := range s.Requests.Lists {
		t.Lists[reason.String()] = n
	}
	for reason, n := range s.Requests.Ends {
		t.WatchEnds[reason.String()] = n
	}
	for i := range s.Reads.Reads {
		t.Reads[s.Reads.Reads[i].Plan.String()] = s.Reads.Reads[i].Count
	}
	t.Decoded, t.DecodeSeconds = s.Requests.Decoded.Count, s.Requests.Decoded.Sum.Seconds()
	if s.Informer != nil {
		e := s.Informer.Events
		t.Events, t.Bookmarks = map[string]uint64{"added": e.Added, "modified": e.Updated, "deleted": e.Deleted}, e.Bookmarks
	}
	return t
}

// add adds the figures of another informer.
func (f *figures) add(other figures) {
	f.Objects += other.Objects
	f.Bytes += other.Bytes
	addAll(&f.Parts, other.Parts)
	if other.AgeSeconds != nil && (f.AgeSeconds == nil || *f.AgeSeconds < *other.AgeSeconds) {
		f.AgeSeconds = other.AgeSeconds
	}
	addAll(&f.Events, other.Events)
	f.Bookmarks += other.Bookmarks
	f.Decoded += other.Decoded
	f.DecodeSeconds += other.DecodeSeconds
	addAll(&f.Lists, other.Lists)
	addAll(&f.WatchEnds, other.WatchEnds)
	addAll(&f.Reads, other.Reads)
	f.Handlers += other.Handlers
	f.HandlerLag = max(f.HandlerLag, other.HandlerLag)
	f.HandlerLagSeconds = max(f.HandlerLagSeconds, other.HandlerLagSeconds)
	f.Indexes += other.Indexes
	f.IndexHits += other.IndexHits
}

func addAll[N int | uint64](to *map[string]N, from map[string]N) {
	if *to == nil {
		*to = map[string]N{}
	}
	for name, n := range from {
		(*to)[name] += n
	}
}

// handlersOf returns the event handlers of informers, the slowest first.
func handlersOf(stats []sample) []handlerInfo {
	all := []handlerInfo{}
	for n := range stats {
		s := &stats[n]
		if s.Informer == nil {
			continue
		}
		for i := range s.Informer.Handlers {
			h := &s.Informer.Handlers[i]
			all = append(all, handlerInfo{
				Namespace: s.namespace, Type: h.Handler, Synced: h.Synced, Lag: h.Behind, LagSeconds: h.Since.Seconds(),
				Lagged: h.Lagged, Calls: h.Called, MeanSeconds: h.Calls.Mean().Seconds(),
			})
		}
	}
	slices.SortStableFunc(all, func(a, b handlerInfo) int { return cmp.Compare(b.LagSeconds, a.LagSeconds) })
	return all
}

// slowOf returns those of handlers, the slowest first, which have not returned for too long from an event.
func slowOf(handlers []handlerInfo) []handlerInfo {
	n := 0
	for n < min(len(handlers), maxSlow) && handlers[n].LagSeconds >= slowAfter.Seconds() {
		n++
	}
	return handlers[:n:n]
}

// indexesOf returns the indexes of informers, the largest first.
func indexesOf(stats []sample) []indexInfo {
	all := []indexInfo{}
	for n := range stats {
		s := &stats[n]
		if s.Reads.Store == nil {
			continue
		}
		for i := range s.Reads.Store.Indexes {
			x := &s.Reads.Store.Indexes[i]
			name := "field:" + x.Name
			if x.Label {
				name = "label:" + x.Name
			}
			all = append(all, indexInfo{Namespace: s.namespace, Name: name, Pairs: x.Pairs, Bytes: x.Bytes, Hits: x.Hits})
		}
	}
	slices.SortStableFunc(all, func(a, b indexInfo) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return all
}
