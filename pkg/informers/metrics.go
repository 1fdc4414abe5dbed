// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// MetricsOptions say what [NewMetrics] makes.
type MetricsOptions struct {
	// Cache is the name of the cache, and the value of the label "cache". It must be unique among the
	// living caches of the process.
	Cache string
	// Registerer receives the metrics.
	Registerer prometheus.Registerer
	// ByNamespace has a series for each namespace to which an informer is restricted. Otherwise all
	// informers of a kind and a representation share one, whose label "namespace" is empty.
	ByNamespace bool
}

// Metrics are the metrics of one cache. They hold no figures but those of reads that the cache cannot
// answer: the informers are asked for theirs when Prometheus collects. A nil *Metrics counts nothing.
// Safe for concurrent use.
type Metrics struct {
	options MetricsOptions
	descs   [metrics]*prometheus.Desc
	reads   *ReadMetrics

	mu   sync.Mutex // guards maps
	maps []*Map
}

// NewMetrics returns metrics that are registered. If there is no Registerer, it returns nil. They keep
// the maps of the cache in memory until [Metrics.Unregister].
func NewMetrics(o MetricsOptions) (*Metrics, error) {
	if o.Registerer == nil {
		return nil, nil
	}
	m := &Metrics{options: o, reads: newReadMetrics(o.Cache)}
	for n, d := range definitions {
		m.descs[n] = prometheus.NewDesc(d.name, d.help, append(append([]string{}, kindLabels...), d.labels...), prometheus.Labels{"cache": o.Cache})
	}
	if err := o.Registerer.Register(m); err != nil {
		return nil, fmt.Errorf("registering the metrics of the cache %q: %w", o.Cache, err)
	}
	return m, nil
}

// Unregister removes the metrics from their Registerer: the cache has ended.
func (m *Metrics) Unregister() {
	if m != nil {
		m.options.Registerer.Unregister(m)
	}
}

// Reads returns the metrics of reads that the cache cannot answer.
func (m *Metrics) Reads() *ReadMetrics {
	if m == nil {
		return nil
	}
	return m.reads
}

// follow adds the informers of a map.
func (m *Metrics) follow(added *Map) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.maps = append(m.maps, added)
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range m.descs {
		to <- d
	}
	m.reads.describe(to)
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.mu.Lock()
	maps := m.maps
	m.mu.Unlock()
	groups := map[group]*figures{}
	for _, in := range maps {
		for _, e := range in.Informers() {
			g := m.groupOf(e)
			if groups[g] == nil {
				groups[g] = newFigures()
			}
			groups[g].add(e)
		}
	}
	for g, f := range groups {
		f.send(&sender{to: to, descs: &m.descs, labels: g.labels()})
	}
	m.reads.collect(to, &m.descs)
}

// group is what the informers have in common that share series.
type group struct {
	Key
	namespace string
}

func (m *Metrics) groupOf(e *MapEntry) group {
	g := group{Key: e.key}
	if m.options.ByNamespace {
		g.namespace = e.scope.namespace
	}
	return g
}

func (g group) labels() []string {
	return []string{g.Group, g.Version, g.Kind, g.Representation.String(), g.namespace}
}
