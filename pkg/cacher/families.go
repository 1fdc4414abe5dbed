// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"errors"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// families are the metrics of all Cachers of one registerer. Two of them may be of the same
// resource: a Cacher begins before the one that it replaces ends. The series of a resource are
// dropped with its last Cacher. There are more than twelve fields, the limit of tarn_test.go, because each
// metric has one.
type families struct {
	events, sent, begun, errors, reads, lists, looked, given, catchUps, expiries, checks *prometheus.CounterVec

	waits  *prometheus.HistogramVec
	newest *prometheus.GaugeVec

	mu    sync.Mutex
	users map[schema.GroupResource]int // guarded by mu
}

var _ prometheus.Collector = (*families)(nil)

// register returns the families of a registerer; nil is nowhere.
func register(r prometheus.Registerer) (*families, error) {
	f := newFamilies()
	if r == nil {
		return f, nil
	}
	err := r.Register(f)
	if known := (prometheus.AlreadyRegisteredError{}); errors.As(err, &known) {
		same, ok := known.ExistingCollector.(*families)
		if !ok {
			return nil, fmt.Errorf("a %T has metrics of the same names: give the cacher another registerer: %w", known.ExistingCollector, err)
		}
		return same, nil
	}
	return f, err
}

func newFamilies() *families {
	return &families{
		events:   counter("apiserver_watch_cache_events_received_total", "Events received in the watch cache."),
		sent:     counter("apiserver_watch_cache_events_dispatched_total", "Events dispatched in the watch cache."),
		begun:    counter("apiserver_watch_cache_initializations_total", "Initializations of the watch cache."),
		errors:   counter("apiserver_watch_cache_initialization_errors_total", "List-watches of the watch cache that failed."),
		reads:    counter("apiserver_watch_cache_consistent_read_total", "Consistent reads from the cache.", "success", "fallback"),
		lists:    counter("apiserver_cache_list_total", "LIST requests served from the watch cache.", "index"),
		looked:   counter("apiserver_cache_list_fetched_objects_total", "Objects looked at for LIST requests.", "index"),
		given:    counter("apiserver_cache_list_returned_objects_total", "Objects returned for LIST requests."),
		catchUps: counter("tarn_cacher_watchers_catching_up_total", "How often a watcher could not take an event at once and was left to read the history by itself."),
		expiries: counter("apiserver_terminated_watchers_total", "Watchers that the history has passed."),
		checks:   counter("apiserver_storage_consistency_checks_total", "Comparisons of the cache with the storage.", "status"),
		waits: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_watch_cache_read_wait_seconds", Help: "Time spent waiting for the watch cache to become fresh.",
			Buckets: []float64{0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3},
		}, resourceLabels),
		newest: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_watch_cache_resource_version", Help: "Resource version of the watch cache, its 15 least significant digits.",
		}, resourceLabels),
		users: map[schema.GroupResource]int{},
	}
}

var resourceLabels = []string{"group", "resource"}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append(labels, resourceLabels...))
}

func labelsOf(resource schema.GroupResource) prometheus.Labels {
	return prometheus.Labels{"group": resource.Group, "resource": resource.Resource}
}

// vector is a family of metrics.
type vector interface {
	prometheus.Collector
	DeletePartialMatch(prometheus.Labels) int
}

// all are the metrics that are exported.
func (f *families) all() []vector {
	return []vector{
		f.events, f.sent, f.begun, f.errors, f.reads, f.lists, f.looked, f.given, f.catchUps, f.expiries, f.checks, f.waits, f.newest,
	}
}

// Describe implements prometheus.Collector.
func (f *families) Describe(to chan<- *prometheus.Desc) {
	for _, v := range f.all() {
		v.Describe(to)
	}
}

// Collect implements prometheus.Collector.
func (f *families) Collect(to chan<- prometheus.Metric) {
	for _, v := range f.all() {
		v.Collect(to)
	}
}

// enter notes that a Cacher of the resource has begun.
func (f *families) enter(resource schema.GroupResource) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.users[resource]++
}

// leave notes that one has ended.
func (f *families) leave(resource schema.GroupResource) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.users[resource]--; f.users[resource] > 0 {
		return
	}
	delete(f.users, resource)
	for _, v := range f.all() {
		v.DeletePartialMatch(labelsOf(resource))
	}
}
