// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tarn-dev/tarn/pkg/cacher/internal/dispatch"
)

// metrics are the metrics of one Cacher. Metrics of upstream's Cacher keep their names.
type metrics struct {
	*families
	labels prometheus.Labels
	end    func() // must be called when the Cacher ends; drops the series if they are the last of the resource

	// Resolved once: they are written with every event or list.
	received, dispatched, catchingUp, expired prometheus.Counter
	revision                                  prometheus.Gauge
	given                                     prometheus.Counter
	byIndex                                   sync.Map // name to *indexMetrics
}

var _ dispatch.Metrics = (*metrics)(nil)

// indexMetrics are those of lists by one index.
type indexMetrics struct{ lists, looked prometheus.Counter }

// newMetrics returns metrics that are registered with the Registerer of the configuration. A
// registerer may serve several Cachers.
func newMetrics(config Config) (*metrics, error) {
	f, err := register(config.Registerer)
	if err != nil {
		return nil, fmt.Errorf("register the metrics of the cacher of %s: %w", config.GroupResource, err)
	}
	resource := config.GroupResource
	f.enter(resource)
	m := &metrics{families: f, labels: labelsOf(resource), end: sync.OnceFunc(func() { f.leave(resource) })}
	m.received, m.dispatched = m.events.With(m.labels), m.sent.With(m.labels)
	m.catchingUp, m.expired = m.catchUps.With(m.labels), m.expiries.With(m.labels)
	m.revision, m.given = m.newest.With(m.labels), m.families.given.With(m.labels)
	return m, nil
}

func (m *metrics) with(more prometheus.Labels) prometheus.Labels {
	for name, value := range m.labels {
		more[name] = value
	}
	return more
}

// Dispatched implements dispatch.Metrics.
func (m *metrics) Dispatched() { m.dispatched.Inc() }

// CatchingUp implements dispatch.Metrics.
func (m *metrics) CatchingUp() { m.catchingUp.Inc() }

// Expired implements dispatch.Metrics.
func (m *metrics) Expired() { m.expired.Inc() }

// reached notes the revision of the cache.
func (m *metrics) reached(revision uint64) {
	m.revision.Set(float64(revision % 1e15))
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
	of, ok := m.byIndex.Load(index)
	if !ok {
		labels := m.with(prometheus.Labels{"index": index})
		of, _ = m.byIndex.LoadOrStore(index, &indexMetrics{m.lists.With(labels), m.looked.With(labels)})
	}
	of.(*indexMetrics).lists.Inc()
	of.(*indexMetrics).looked.Add(float64(looked))
	m.given.Add(float64(returned))
}

func (m *metrics) checked(status string) {
	m.checks.With(m.with(prometheus.Labels{"status": status})).Inc()
}
