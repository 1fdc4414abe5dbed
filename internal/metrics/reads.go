// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarn-dev/tarn/internal/live"
	"github.com/tarn-dev/tarn/internal/stats"
)

// Miss is the reason for which a cache does not have what a read asks for.
type Miss string

// The reasons.
const (
	MissNotFound  Miss = "not_found"     // the object is not in the cache, which would hold it
	MissOutside   Miss = "outside_scope" // the cache does not hold such objects
	MissNotCached Miss = "not_cached"    // the kind has no informer, and reads may not start one
)

// Reads count the reads of one cache that it cannot answer from what it holds, and the informers that reads start. A nil *Reads
// counts nothing. Safe for concurrent use.
type Reads struct {
	missed, answers, requests, started *prometheus.CounterVec

	mu   sync.Mutex // guards live
	live map[Series]*stats.Histogram
}

func newReads(cache string) *Reads {
	counter := func(name, help string, more ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: prometheus.Labels{"cache": cache}},
			append([]string{"group", "version", "kind"}, more...))
	}
	return &Reads{
		missed:   counter("tarn_cache_read_misses_total", "Reads that asked for what the cache does not have, by reason: an object that is not found, one outside the scope of the cache, or one of a kind that is not cached.", "reason"),
		answers:  counter("tarn_cache_read_through_total", "Reads that missed and were passed on to the API server, by their result.", "result"),
		requests: counter("tarn_cache_read_through_requests_total", "Requests that these reads took: reads of the same object share one."),
		started:  counter("tarn_cache_read_started_informers_total", "Informers that reads have started: one for each namespace to which the kind is restricted, or one."),
		live:     map[Series]*stats.Histogram{},
	}
}

// Missed counts a read that the cache could not answer from what it holds.
func (m *Reads) Missed(gvk schema.GroupVersionKind, reason Miss) {
	if m != nil {
		m.missed.WithLabelValues(gvk.Group, gvk.Version, gvk.Kind, string(reason)).Inc()
	}
}

// Answered counts a read that was passed on to the API server.
func (m *Reads) Answered(gvk schema.GroupVersionKind, answer live.Answer) {
	if m != nil {
		m.answers.WithLabelValues(gvk.Group, gvk.Version, gvk.Kind, string(answer)).Inc()
	}
}

// Requested counts a request of such a read.
func (m *Reads) Requested(gvk schema.GroupVersionKind) {
	if m != nil {
		m.requests.WithLabelValues(gvk.Group, gvk.Version, gvk.Kind).Inc()
	}
}

// Started counts informers that a read has started.
func (m *Reads) Started(gvk schema.GroupVersionKind, informers int) {
	if m != nil {
		m.started.WithLabelValues(gvk.Group, gvk.Version, gvk.Kind).Add(float64(informers))
	}
}

// Live measures a read that was passed on to the API server.
func (m *Reads) Live(of Series, took time.Duration) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.live[of] == nil {
		m.live[of] = &stats.Histogram{}
	}
	m.live[of].Observe(took)
}

func (m *Reads) describe(to chan<- *prometheus.Desc) {
	m.missed.Describe(to)
	m.answers.Describe(to)
	m.requests.Describe(to)
	m.started.Describe(to)
}

func (m *Reads) collect(to chan<- prometheus.Metric, descs *[numberOfMetrics]*prometheus.Desc) {
	m.missed.Collect(to)
	m.answers.Collect(to)
	m.requests.Collect(to)
	m.started.Collect(to)
	m.mu.Lock()
	defer m.mu.Unlock()
	for of, took := range m.live {
		s, d := &sender{to: to, descs: descs, labels: of.labels()}, took.Read()
		s.value(readsMetric, float64(d.Count), "live")
		s.histogram(readDurationMetric, d, "live")
	}
}
