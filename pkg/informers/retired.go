// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import "maps"

// life is where an entry is for the metrics. The counters of informers that share series are added up, so
// the counts of one that is removed must stay as long as the others are there: a counter never falls.
type life int

const (
	made    life = iota // it is in its map
	runs                // and its informer runs
	over                // and its informer has run
	removed             // it is in no map, and still counts: handlers may not have returned
)

// follow adds an entry with an informer of its own.
func (m *Metrics) follow(e *MapEntry) { m.move(e, func(life) (life, bool) { return made, true }) }

// begun notes that the informer of an entry runs.
func (m *Metrics) begun(e *MapEntry) {
	m.move(e, func(was life) (life, bool) { return max(was, runs), true })
}

// leave notes that an entry is in no map any more.
func (m *Metrics) leave(e *MapEntry) {
	m.move(e, func(was life) (life, bool) { return removed, was == runs || was == removed })
}

// ended notes that the informer of an entry has run, and counts nothing any more.
func (m *Metrics) ended(e *MapEntry) {
	m.move(e, func(was life) (life, bool) { return over, was != removed })
}

// move moves an entry on in its life, or keeps its counts in its place if it does not stay. An entry that
// went before is gone.
func (m *Metrics) move(e *MapEntry, next func(was life) (is life, stays bool)) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	was, known := m.entries[e]
	is, stays := next(was)
	switch {
	case !known && is != made:
		return
	case stays:
		m.entries[e] = is
	default:
		delete(m.entries, e)
	}
	of := m.groupOf(e)
	switch {
	case !m.countsLocked(of): // nobody has the kind any more, and its series begin anew if somebody gets it
		delete(m.retired, of)
	case !stays:
		if m.retired[of] == nil {
			m.retired[of] = newFigures()
		}
		m.retired[of].merge(countsOf(e))
	}
}

// countsLocked reports whether some entry counts for the series of a group. One that is removed does until its
// handlers have returned: if the kind is made again meanwhile, nobody has seen the series end.
func (m *Metrics) countsLocked(of group) bool {
	for e := range m.entries {
		if m.groupOf(e) == of {
			return true
		}
	}
	return false
}

// known returns the groups that have series, with the counts of entries that have ended, and all other
// entries.
func (m *Metrics) known() (map[group]*figures, map[*MapEntry]life) {
	m.mu.Lock()
	defer m.mu.Unlock()
	groups := map[group]*figures{}
	for e, is := range m.entries {
		if of := m.groupOf(e); is != removed && groups[of] == nil {
			groups[of] = newFigures()
			if ended := m.retired[of]; ended != nil {
				groups[of].merge(ended)
			}
		}
	}
	return groups, maps.Clone(m.entries)
}

// countsOf returns what an entry has counted, without the figures of now.
func countsOf(e *MapEntry) *figures {
	f := newFigures()
	f.add(e)
	gauge := func(of metric) bool { return !counters[of] }
	maps.DeleteFunc(f.single, func(of metric, _ float64) bool { return gauge(of) })
	maps.DeleteFunc(f.labelled, func(of metric, _ map[string]float64) bool { return gauge(of) })
	return f
}

// merge adds the counts of other informers. These must be counts alone: see [countsOf].
func (f *figures) merge(counts *figures) {
	for of, value := range counts.single {
		f.sum(of, value)
	}
	for of, values := range counts.labelled {
		for label, value := range values {
			f.sumBy(of, label, value)
		}
	}
	for of, d := range counts.durations {
		f.observe(of, d)
	}
	for plan, d := range counts.reads {
		f.observeRead(plan, d)
	}
}
