// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Options say what [New] makes.
type Options struct {
	// Cache is the name of the cache, and the value of the label "cache". It must be unique among the
	// living caches of the process.
	Cache string
	// Registerer receives the metrics.
	Registerer prometheus.Registerer
	// ByNamespace has a series for each namespace to which an informer is restricted. Otherwise all
	// informers of a kind and a representation share one, whose label "cached_namespace" is empty.
	ByNamespace bool
}

// Metrics are the metrics of one cache. They hold no figures but those of reads that the cache cannot
// answer, and those of informers that have ended: the others are asked for theirs when Prometheus
// collects. A nil *Metrics counts nothing. Safe for concurrent use.
type Metrics struct {
	options    Options
	descs      [numberOfMetrics]*prometheus.Desc
	reads      *Reads
	bounds     *Bounds
	leases     *Leases
	namespaces *Namespaces

	mu        sync.Mutex // guards what follows; it comes after the locks of maps
	informers map[Informer]life
	retired   map[Series]*figures // the counts of informers that have ended, as long as others share their series
}

// New returns metrics that are registered. If there is no Registerer, it returns nil. They keep
// the informers of the cache in memory until these are removed, or until [Metrics.Unregister].
func New(o Options) (*Metrics, error) {
	if o.Registerer == nil {
		return nil, nil
	}
	m := &Metrics{options: o, reads: newReads(o.Cache), bounds: newBounds(o.Cache), leases: newLeases(o.Cache), namespaces: newNamespaces(o.Cache), informers: map[Informer]life{}, retired: map[Series]*figures{}}
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
func (m *Metrics) Reads() *Reads {
	if m == nil {
		return nil
	}
	return m.reads
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range m.descs {
		to <- d
	}
	m.reads.describe(to)
	m.bounds.describe(to)
	m.leases.describe(to)
	m.namespaces.describe(to)
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	all, informers := m.known()
	for i, is := range informers {
		if f := all[m.seriesOf(i)]; f != nil && is == removed {
			f.merge(countsOf(i))
		} else if f != nil {
			f.add(i.Sample())
		}
	}
	for of, f := range all {
		f.send(&sender{to: to, descs: &m.descs, labels: of.labels()})
	}
	m.reads.collect(to, &m.descs)
	m.bounds.collect(to)
	m.leases.collect(to)
	m.namespaces.collect(to)
}

func (m *Metrics) seriesOf(i Informer) Series {
	of := i.Series()
	if !m.options.ByNamespace {
		of.Namespace = ""
	}
	return of
}
