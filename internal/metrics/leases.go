// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Leased is what there is for leases on a kind.
type Leased struct {
	Leases       int // that are held
	Names, Wider int // informers that leases have begun: of one name each, and of more
}

// Leases count what references do in one cache, and ask for the leases that are held. Safe for concurrent use.
type Leases struct {
	gets, wakeUps   *prometheus.CounterVec
	held, informers *prometheus.Desc

	ask atomic.Pointer[func() map[schema.GroupVersionKind]Leased] // nil before the first lease
}

func newLeases(cache string) *Leases {
	labels, its := []string{"group", "version", "kind"}, prometheus.Labels{"cache": cache}
	return &Leases{
		gets:      prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tarn_cache_reference_gets_total", Help: "Objects that were read from the API server, because the cache has only their metadata and a reconcile refers to them.", ConstLabels: its}, labels),
		wakeUps:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tarn_cache_wake_ups_total", Help: "How often a change of what a request refers to has enqueued it.", ConstLabels: its}, labels),
		held:      prometheus.NewDesc("tarn_cache_leases", "Leases that are held.", labels, its),
		informers: prometheus.NewDesc("tarn_cache_lease_informers", "Informers that leases have begun, by their scope: one name, or a wider one.", append(labels, "scope"), its),
	}
}

// Leases returns the metrics of leases, which nobody collects if there are no metrics.
func (m *Metrics) Leases() *Leases {
	if m == nil {
		return newLeases("")
	}
	return m.leases
}

// Ask has ask called when somebody collects: it returns what there is by kind.
func (l *Leases) Ask(ask func() map[schema.GroupVersionKind]Leased) { l.ask.Store(&ask) }

// Got counts an object that was read from the API server.
func (l *Leases) Got(gvk schema.GroupVersionKind) {
	l.gets.WithLabelValues(gvk.Group, gvk.Version, gvk.Kind).Inc()
}

// WakeUps returns the counter of the wake-ups by objects of a kind.
func (l *Leases) WakeUps(gvk schema.GroupVersionKind) prometheus.Counter {
	return l.wakeUps.WithLabelValues(gvk.Group, gvk.Version, gvk.Kind)
}

func (l *Leases) describe(to chan<- *prometheus.Desc) {
	l.gets.Describe(to)
	l.wakeUps.Describe(to)
	to <- l.held
	to <- l.informers
}

func (l *Leases) collect(to chan<- prometheus.Metric) {
	l.gets.Collect(to)
	l.wakeUps.Collect(to)
	ask := l.ask.Load()
	if ask == nil {
		return
	}
	for gvk, of := range (*ask)() {
		gauge := func(desc *prometheus.Desc, value int, more ...string) {
			to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), append([]string{gvk.Group, gvk.Version, gvk.Kind}, more...)...)
		}
		gauge(l.held, of.Leases)
		gauge(l.informers, of.Names, "name")
		gauge(l.informers, of.Wider, "wider")
	}
}
