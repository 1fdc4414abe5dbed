// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are those of one Cacher. Where upstream's Cacher has a metric the name is the same.
type metrics struct {
	labels prometheus.Labels
	events *prometheus.CounterVec
	sent   *prometheus.CounterVec
	begun  *prometheus.CounterVec
	errors *prometheus.CounterVec
	waits  *prometheus.HistogramVec
	reads  *prometheus.CounterVec
	lists  *prometheus.CounterVec
	looked *prometheus.CounterVec
	given  *prometheus.CounterVec
	parks  *prometheus.CounterVec
	behind *prometheus.CounterVec
	checks *prometheus.CounterVec
	newest *prometheus.GaugeVec

	received, dispatched, parked, leftBehind func()
}

// newMetrics returns metrics that are registered with the Registerer of the configuration. A
// registerer may be that of several Cachers.
func newMetrics(config Config) (*metrics, error) {
	r := &registry{to: config.Registerer}
	m := &metrics{
		labels: prometheus.Labels{"group": config.GroupResource.Group, "resource": config.GroupResource.Resource},
		events: r.counter("apiserver_watch_cache_events_received_total", "Events received in the watch cache."),
		sent:   r.counter("apiserver_watch_cache_events_dispatched_total", "Events dispatched in the watch cache."),
		begun:  r.counter("apiserver_watch_cache_initializations_total", "Initializations of the watch cache."),
		errors: r.counter("apiserver_watch_cache_initialization_errors_total", "List-watches of the watch cache that failed."),
		reads:  r.counter("apiserver_watch_cache_consistent_read_total", "Consistent reads from the cache.", "success", "fallback"),
		lists:  r.counter("apiserver_cache_list_total", "LIST requests served from the watch cache.", "index"),
		looked: r.counter("apiserver_cache_list_fetched_objects_total", "Objects looked at for LIST requests.", "index"),
		given:  r.counter("apiserver_cache_list_returned_objects_total", "Objects returned for LIST requests."),
		parks:  r.counter("tarn_cacher_watchers_parked_total", "How often a watcher could not take an event at once and was left to read the history by itself."),
		behind: r.counter("apiserver_terminated_watchers_total", "Watchers that the history left behind."),
		checks: r.counter("apiserver_storage_consistency_checks_total", "Comparisons of the cache with the storage.", "status"),
		waits: register(r, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_watch_cache_read_wait_seconds", Help: "Time spent waiting for the watch cache to become fresh.",
			Buckets: []float64{0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3},
		}, resourceLabels)),
		newest: register(r, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_watch_cache_resource_version", Help: "Resource version of the watch cache, its 15 least significant digits.",
		}, resourceLabels)),
	}
	m.received, m.dispatched = m.events.With(m.labels).Inc, m.sent.With(m.labels).Inc
	m.parked, m.leftBehind = m.parks.With(m.labels).Inc, m.behind.With(m.labels).Inc
	return m, r.err
}

var resourceLabels = []string{"group", "resource"}

// registry registers metrics, and keeps the first error.
type registry struct {
	to  prometheus.Registerer // nil is nowhere
	err error
}

func (r *registry) counter(name, help string, labels ...string) *prometheus.CounterVec {
	return register(r, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append(labels, resourceLabels...)))
}

// register returns the collector, or the one of its kind that is registered already.
func register[C prometheus.Collector](r *registry, c C) C {
	if r.to == nil {
		return c
	}
	err := r.to.Register(c)
	if known := (prometheus.AlreadyRegisteredError{}); errors.As(err, &known) {
		if same, ok := known.ExistingCollector.(C); ok {
			return same
		}
	}
	r.err = errors.Join(r.err, err)
	return c
}

func (m *metrics) with(more prometheus.Labels) prometheus.Labels {
	for name, value := range m.labels {
		more[name] = value
	}
	return more
}

// reached notes the revision of the cache.
func (m *metrics) reached(revision uint64) {
	m.newest.With(m.labels).Set(float64(revision % 1e15))
}

func (m *metrics) initialized(revision uint64) {
	m.begun.With(m.labels).Inc()
	m.reached(revision)
}

func (m *metrics) failed() { m.errors.With(m.labels).Inc() }

func (m *metrics) waited(d time.Duration) { m.waits.With(m.labels).Observe(d.Seconds()) }

func (m *metrics) consistentRead(success bool, fallback string) {
	m.reads.With(m.with(prometheus.Labels{"success": strconv.FormatBool(success), "fallback": fallback})).Inc()
}

func (m *metrics) listed(index string, looked, returned int) {
	labels := m.with(prometheus.Labels{"index": index})
	m.lists.With(labels).Inc()
	m.looked.With(labels).Add(float64(looked))
	m.given.With(m.labels).Add(float64(returned))
}

func (m *metrics) checked(status string) {
	m.checks.With(m.with(prometheus.Labels{"status": status})).Inc()
}

// end drops the series of this Cacher.
func (m *metrics) end() {
	for _, v := range []interface {
		DeletePartialMatch(prometheus.Labels) int
	}{m.events, m.sent, m.begun, m.errors, m.waits, m.reads, m.lists, m.looked, m.given, m.parks, m.behind, m.checks, m.newest} {
		v.DeletePartialMatch(m.labels)
	}
}
