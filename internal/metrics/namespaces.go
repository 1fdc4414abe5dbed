// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Namespaces are the metrics of a cache whose namespaces come and go. Safe for concurrent use.
type Namespaces struct {
	cached, members *prometheus.Desc

	ask atomic.Pointer[func() (cached, members int)] // nil if they are fixed
}

func newNamespaces(cache string) *Namespaces {
	its := prometheus.Labels{"cache": cache}
	return &Namespaces{
		cached:  prometheus.NewDesc("tarn_cache_namespaces", "Namespaces that are cached now, of those that come and go.", nil, its),
		members: prometheus.NewDesc("tarn_cache_ring_members", "Members of the ring that shares the namespaces, as this replica knows them; 0 while it is not in the ring.", nil, its),
	}
}

// Namespaces returns the metrics of namespaces, which nobody collects if there are no metrics.
func (m *Metrics) Namespaces() *Namespaces {
	if m == nil {
		return newNamespaces("")
	}
	return m.namespaces
}

// Ask has ask called when somebody collects. A negative number of members says that no ring shares the namespaces.
func (n *Namespaces) Ask(ask func() (cached, members int)) { n.ask.Store(&ask) }

func (n *Namespaces) describe(to chan<- *prometheus.Desc) {
	to <- n.cached
	to <- n.members
}

func (n *Namespaces) collect(to chan<- prometheus.Metric) {
	ask := n.ask.Load()
	if ask == nil {
		return
	}
	cached, members := (*ask)()
	to <- prometheus.MustNewConstMetric(n.cached, prometheus.GaugeValue, float64(cached))
	if members >= 0 {
		to <- prometheus.MustNewConstMetric(n.members, prometheus.GaugeValue, float64(members))
	}
}
