// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarn-dev/tarn/internal/live"
)

// Miss is the reason for which a cache does not have what a read asks for.
type Miss string

// The reasons.
const (
	MissNotFound  Miss = "not_found"     // the object is not in the cache, which would hold it
	MissOutside   Miss = "outside_scope" // the cache does not hold such objects
	MissNotCached Miss = "not_cached"    // the kind has no informer, and reads may not start one
)

// readCounters count reads that a cache cannot answer from what it holds.
type readCounters struct{ missed, answers, requests *prometheus.CounterVec }

func newReadCounters(to prometheus.Registerer) (c readCounters, err error) {
	for _, counter := range []struct {
		to         **prometheus.CounterVec
		name, help string
		label      []string
	}{
		{&c.missed, "tarn_cache_read_misses_total", "How many reads asked for what the cache does not have: an object that is not found, one outside the scope of the cache, or one of a kind that is not cached.", []string{"reason"}},
		{&c.answers, "tarn_cache_read_through_total", "How many of these reads were passed on to the API server, by their result.", []string{"result"}},
		{&c.requests, "tarn_cache_read_through_requests_total", "How many requests that took: reads of the same object share one.", nil},
	} {
		labels := append([]string{"cache", "group", "version", "kind"}, counter.label...)
		made := prometheus.NewCounterVec(prometheus.CounterOpts{Name: counter.name, Help: counter.help}, labels)
		*counter.to, err = register(to, made)
		if err != nil {
			return c, err
		}
	}
	return c, nil
}

// ReadMetrics count the reads of one cache. A nil *ReadMetrics counts nothing.
type ReadMetrics struct {
	readCounters
	cache string
}

// Reads returns the metrics of the reads of a cache.
func (m *Metrics) Reads(cache string) *ReadMetrics {
	if m == nil {
		return nil
	}
	return &ReadMetrics{m.reads, cache}
}

// Missed counts a read that the cache could not answer from what it holds.
func (m *ReadMetrics) Missed(key Key, reason Miss) {
	if m != nil {
		m.missed.WithLabelValues(m.cache, key.Group, key.Version, key.Kind, string(reason)).Inc()
	}
}

// Answered counts a read that was passed on to the API server.
func (m *ReadMetrics) Answered(gvk schema.GroupVersionKind, answer live.Answer) {
	if m != nil {
		m.answers.WithLabelValues(m.cache, gvk.Group, gvk.Version, gvk.Kind, string(answer)).Inc()
	}
}

// Requested counts a request of such a read.
func (m *ReadMetrics) Requested(gvk schema.GroupVersionKind) {
	if m != nil {
		m.requests.WithLabelValues(m.cache, gvk.Group, gvk.Version, gvk.Kind).Inc()
	}
}

// Forget removes what was counted for a cache that has ended.
func (m *ReadMetrics) Forget() {
	if m == nil {
		return
	}
	for _, counter := range []*prometheus.CounterVec{m.missed, m.answers, m.requests} {
		counter.DeletePartialMatch(prometheus.Labels{"cache": m.cache})
	}
}
