// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are what informers count. A nil *Metrics counts nothing.
type Metrics struct {
	handlerLagged *prometheus.CounterVec
}

// NewMetrics returns metrics that are registered with to, or nil if that is nil.
// Caches may share a registerer.
func NewMetrics(to prometheus.Registerer) (*Metrics, error) {
	if to == nil {
		return nil, nil
	}
	lagged := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tarn_informer_handler_lagged_total",
		Help: "How often an event handler fell out of the window of events, and was given one event for each changed object instead.",
	}, []string{"cache", "group", "version", "kind", "representation", "namespace"})
	err := to.Register(lagged)
	if known := (prometheus.AlreadyRegisteredError{}); errors.As(err, &known) {
		return &Metrics{handlerLagged: known.ExistingCollector.(*prometheus.CounterVec)}, nil
	}
	return &Metrics{handlerLagged: lagged}, err
}

// lagged returns what to call when a handler of an informer has lagged.
func (m *Metrics) lagged(cache string, e *MapEntry) func() {
	if m == nil {
		return func() {}
	}
	return m.handlerLagged.WithLabelValues(cache, e.key.Group, e.key.Version, e.key.Kind,
		e.key.Representation.String(), e.namespace).Inc
}
