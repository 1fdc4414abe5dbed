// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"errors"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tarn-dev/tarn/pkg/reader"
)

// Metrics are what informers of our own count. A nil *Metrics counts nothing.
type Metrics struct {
	handlerLagged *prometheus.CounterVec
	stores        *storeMetrics
}

// metricLabels tell informers apart.
var metricLabels = []string{"cache", "group", "version", "kind", "representation", "namespace"}

func labelValues(cache string, e *MapEntry) []string {
	return []string{cache, e.key.Group, e.key.Version, e.key.Kind, e.key.Representation.String(), e.namespace}
}

// NewMetrics returns metrics that are registered with to, or nil if that is nil.
// Caches may share a registerer.
func NewMetrics(to prometheus.Registerer) (*Metrics, error) {
	if to == nil {
		return nil, nil
	}
	lagged, err := register(to, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tarn_informer_handler_lagged_total",
		Help: "How often an event handler fell out of the window of events, and was given one event for each changed object instead.",
	}, metricLabels))
	if err != nil {
		return nil, err
	}
	stores, err := register(to, newStoreMetrics())
	if err != nil {
		return nil, err
	}
	return &Metrics{handlerLagged: lagged, stores: stores}, nil
}

// register returns the collector, or the one of its kind that is registered already.
func register[C prometheus.Collector](to prometheus.Registerer, c C) (C, error) {
	err := to.Register(c)
	if known := (prometheus.AlreadyRegisteredError{}); errors.As(err, &known) {
		return known.ExistingCollector.(C), nil
	}
	return c, err
}

// follow begins to count for the informer of an entry. It returns what to call when
// one of its handlers has lagged, and what ends the counting.
func (m *Metrics) follow(cache string, e *MapEntry, store *reader.EngineStore) (lagged, end func()) {
	if m == nil {
		return func() {}, func() {}
	}
	labels := labelValues(cache, e)
	m.stores.add(e, observedStore{labels: labels, store: store})
	return m.handlerLagged.WithLabelValues(labels...).Inc, func() {
		m.stores.remove(e)
		m.handlerLagged.DeleteLabelValues(labels...)
	}
}

// storeMetrics collects from the stores when it is asked.
type storeMetrics struct {
	objects, indexes, indexBytes *prometheus.Desc

	mu     sync.Mutex // guards stores
	stores map[*MapEntry]observedStore
}

type observedStore struct {
	labels []string
	store  *reader.EngineStore
}

func newStoreMetrics() *storeMetrics {
	desc := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, metricLabels, nil) }
	return &storeMetrics{
		objects:    desc("tarn_informer_objects", "How many objects are cached."),
		indexes:    desc("tarn_informer_label_indexes", "How many labels are indexed because lists ask for them."),
		indexBytes: desc("tarn_informer_label_index_bytes", "An estimate of the memory that the indexes of labels take."),
		stores:     map[*MapEntry]observedStore{},
	}
}

func (m *storeMetrics) add(e *MapEntry, s observedStore) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stores[e] = s
}

func (m *storeMetrics) remove(e *MapEntry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.stores, e)
}

// Describe implements prometheus.Collector.
func (m *storeMetrics) Describe(to chan<- *prometheus.Desc) {
	to <- m.objects
	to <- m.indexes
	to <- m.indexBytes
}

// Collect implements prometheus.Collector.
func (m *storeMetrics) Collect(to chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.stores {
		gauge := func(desc *prometheus.Desc, value int) {
			to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), s.labels...)
		}
		indexes := s.store.LabelIndexes()
		gauge(m.objects, s.store.Len())
		gauge(m.indexes, indexes.Number)
		gauge(m.indexBytes, indexes.Bytes)
	}
}
