// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"errors"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tarn-dev/tarn/pkg/reader"
)

// Metrics are the metrics of informers of package internal/informer. A nil *Metrics counts nothing.
type Metrics struct {
	handlerLagged *prometheus.CounterVec
	stores        *storeMetrics
	reads         readCounters
}

// metricLabels are the labels by which metrics of informers differ.
var metricLabels = []string{"cache", "group", "version", "kind", "representation", "namespace"}

func labelValues(cache string, e *MapEntry) []string {
	return []string{cache, e.key.Group, e.key.Version, e.key.Kind, e.key.Representation.String(), e.scope.namespace}
}

// NewMetrics returns metrics that are registered with to. If to is nil, it returns nil. Several
// caches may share a registerer.
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
	reads, err := newReadCounters(to)
	if err != nil {
		return nil, err
	}
	return &Metrics{handlerLagged: lagged, stores: stores, reads: reads}, nil
}

// register registers c and returns it. If such a collector is registered already, it returns that
// one.
func register[C prometheus.Collector](to prometheus.Registerer, c C) (C, error) {
	err := to.Register(c)
	if known := (prometheus.AlreadyRegisteredError{}); errors.As(err, &known) {
		return known.ExistingCollector.(C), nil
	}
	return c, err
}

// follow begins to count for the informer of an entry. The caller calls lagged when a handler of
// the informer has lagged, and end when the informer has ended.
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

// storeMetrics reads the stores when Prometheus collects.
type storeMetrics struct {
	objects, decoded, decodedBytes, indexes, indexBytes, ownWrites, ownBytes *prometheus.Desc

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
		objects: desc("tarn_informer_objects", "How many objects are cached."),
		decoded: desc("tarn_informer_decoded_objects", "How many objects that are kept flat are also kept decoded, because they are read without copies."),
		decodedBytes: desc("tarn_informer_decoded_bytes",
			"About how much memory these decoded objects take, including strings that they share with the flat objects."),
		indexes:    desc("tarn_informer_label_indexes", "How many labels are indexed because lists ask for them."),
		indexBytes: desc("tarn_informer_label_index_bytes", "An estimate of the memory that the indexes of labels take."),
		ownWrites:  desc("tarn_informer_own_writes", "How many objects the program has written that the watch has not shown yet."),
		ownBytes:   desc("tarn_informer_own_write_bytes", "About how much memory these objects take."),
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
	to <- m.decoded
	to <- m.decodedBytes
	to <- m.indexes
	to <- m.indexBytes
	to <- m.ownWrites
	to <- m.ownBytes
}

// Collect implements prometheus.Collector.
func (m *storeMetrics) Collect(to chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.stores {
		gauge := func(desc *prometheus.Desc, value float64) {
			to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, s.labels...)
		}
		shared, indexes := s.store.Shared(), s.store.LabelIndexes()
		gauge(m.objects, float64(s.store.Len()))
		gauge(m.decoded, float64(shared.Objects))
		gauge(m.decodedBytes, float64(shared.Bytes))
		gauge(m.indexes, float64(indexes.Number))
		gauge(m.indexBytes, float64(indexes.Bytes))
		writes, bytes := s.store.OwnWrites()
		gauge(m.ownWrites, float64(writes))
		gauge(m.ownBytes, float64(bytes))
	}
}
