// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Bounded says what is cached of a kind that has a bound in bytes. The zero kind stands for the whole cache.
type Bounded struct {
	schema.GroupVersionKind
	Bytes, Most int64
	// Over says in one sentence that there are more bytes, although all that can be was evicted, and what to do; empty if not.
	Over string
}

// Bounds count what is evicted from one cache, and have what was seen last. Safe for concurrent use.
type Bounds struct {
	evicted           *prometheus.CounterVec
	bytes, most, over *prometheus.Desc

	seen atomic.Pointer[[]Bounded] // it does not change
}

func newBounds(cache string) *Bounds {
	labels, its := []string{"group", "version", "kind"}, prometheus.Labels{"cache": cache}
	b := &Bounds{
		evicted: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tarn_cache_evictions_total", Help: "What was evicted because more bytes were cached than MaxBytes allows.", ConstLabels: its}, append(labels, "what")),
		bytes:   prometheus.NewDesc("tarn_cache_bytes", "Estimate of the bytes that are compared with a bound. An empty kind stands for the whole cache.", labels, its),
		most:    prometheus.NewDesc("tarn_cache_max_bytes", "The bound.", labels, its),
		over:    prometheus.NewDesc("tarn_cache_over_max_bytes", "Whether there are more bytes than the bound allows (1), although all that can be was evicted.", labels, its),
	}
	b.See(nil)
	return b
}

// Bounds returns the metrics of bounds in bytes, which nobody collects if there are no metrics.
func (m *Metrics) Bounds() *Bounds {
	if m == nil {
		return newBounds("")
	}
	return m.bounds
}

// Evicted counts something that was evicted.
func (b *Bounds) Evicted(gvk schema.GroupVersionKind, what string) {
	b.evicted.WithLabelValues(gvk.Group, gvk.Version, gvk.Kind, what).Inc()
}

// See notes what is cached now of all that has a bound.
func (b *Bounds) See(all []Bounded) { b.seen.Store(&all) }

// Seen returns what was seen last; nobody changes it.
func (b *Bounds) Seen() []Bounded { return *b.seen.Load() }

func (b *Bounds) describe(to chan<- *prometheus.Desc) {
	b.evicted.Describe(to)
	for _, desc := range []*prometheus.Desc{b.bytes, b.most, b.over} {
		to <- desc
	}
}

func (b *Bounds) collect(to chan<- prometheus.Metric) {
	b.evicted.Collect(to)
	for _, s := range b.Seen() {
		over := 0.0
		if s.Over != "" {
			over = 1
		}
		for desc, value := range map[*prometheus.Desc]float64{b.bytes: float64(s.Bytes), b.most: float64(s.Most), b.over: over} {
			to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, s.Group, s.Version, s.Kind)
		}
	}
}
