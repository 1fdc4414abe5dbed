// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import "maps"

// life is where an informer is for the metrics. The counters of informers that share series are added up, so
// the counts of a removed informer must stay as long as the others are there: a counter never falls.
type life int

const (
	made    life = iota // the cache has it
	runs                // and it runs
	over                // and it has run
	removed             // the cache has it no more, and it still counts: handlers may not have returned
)

// Made adds an informer.
func (m *Metrics) Made(i Informer) {
	m.move(i, func(life) (life, bool) { return made, true })
}

// Runs notes that an informer runs.
func (m *Metrics) Runs(i Informer) {
	m.move(i, func(was life) (life, bool) { return max(was, runs), true })
}

// Removed notes that the cache has removed an informer.
func (m *Metrics) Removed(i Informer) {
	m.move(i, func(was life) (life, bool) { return removed, was == runs || was == removed })
}

// Ended notes that an informer has run, and counts nothing any more.
func (m *Metrics) Ended(i Informer) {
	m.move(i, func(was life) (life, bool) { return over, was != removed })
}

// move moves an informer on in its life, or keeps its counts in its place if it does not stay. An informer that
// went before is gone.
func (m *Metrics) move(i Informer, next func(was life) (is life, stays bool)) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	was, known := m.informers[i]
	is, stays := next(was)
	switch {
	case !known && is != made:
		return
	case stays:
		m.informers[i] = is
	default:
		delete(m.informers, i)
	}
	of := m.seriesOf(i)
	switch {
	case !m.countsLocked(of): // nobody has the kind any more, and its series begin anew if somebody gets it
		delete(m.retired, of)
	case !stays:
		if m.retired[of] == nil {
			m.retired[of] = newFigures()
		}
		m.retired[of].merge(countsOf(i))
	}
}

// countsLocked reports whether some informer counts for these series. A removed informer counts until
// its handlers have returned: if the kind is made again meanwhile, the series has not ended for
// Prometheus.
func (m *Metrics) countsLocked(of Series) bool {
	for i := range m.informers {
		if m.seriesOf(i) == of {
			return true
		}
	}
	return false
}

// Held returns how many informers m holds, and of how many series it keeps the counts of ended informers.
func (m *Metrics) Held() (informers, ended int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.informers), len(m.retired)
}

// known returns all series, with the counts of informers that have ended, and all other informers.
func (m *Metrics) known() (map[Series]*figures, map[Informer]life) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[Series]*figures{}
	for i, is := range m.informers {
		if of := m.seriesOf(i); is != removed && all[of] == nil {
			all[of] = newFigures()
			if ended := m.retired[of]; ended != nil {
				all[of].merge(ended)
			}
		}
	}
	return all, maps.Clone(m.informers)
}

// countsOf returns what an informer has counted, without the figures of now.
func countsOf(i Informer) *figures {
	f := newFigures()
	f.add(i.Sample())
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
