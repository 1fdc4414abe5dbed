// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/metrics"
)

// counted returns the counters of a registry, and how much the histograms have counted.
func counted(g *WithT, registry *prometheus.Registry) map[string]float64 {
	families, err := registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	values := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := fmt.Sprint(family.GetName(), m.GetLabel())
			switch {
			case m.Counter != nil:
				values[name] = m.GetCounter().GetValue()
			case m.Histogram != nil:
				values[name] = float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return values
}

// TestCountersDoNotFallWhenNamespacesAreRemoved: the namespaces of a kind share one series, and the
// cache removes them one after the other.
func TestCountersDoNotFallWhenNamespacesAreRemoved(t *testing.T) {
	for name, shared := range map[string]bool{"a watch each": false, "one watch for all representations": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				registry := prometheus.NewRegistry()
				counts, err := metrics.New(metrics.Options{Cache: t.Name(), Registerer: registry})
				g.Expect(err).NotTo(HaveOccurred())
				proceed := make(chan struct{})
				letGo := sync.OnceFunc(func() { close(proceed) })
				defer letGo()
				var maps []*Map
				for _, namespace := range []string{"a", "b", "c"} {
					// Handlers return when the informer has been removed.
					maps = append(maps, countedMap(t, g, counts, namespace, shared, func(any, any) { <-proceed }))
				}
				before := counted(g, registry)
				g.Expect(before).To(ContainElement(6.0), "events of all namespaces")
				notLess := func(when string) {
					t.Helper()
					now := counted(g, registry)
					for series, value := range before {
						g.Expect(now).To(HaveKey(series), when)
						g.Expect(now[series]).To(BeNumerically(">=", value), "%s: %s", when, series)
					}
					before = now
				}
				maps[0].Remove(podKey)
				notLess("one namespace is removed, and its handler has not returned")
				maps[1].Remove(podKey)
				notLess("another one is removed")
				letGo()
				synctest.Wait()
				notLess("the handlers have returned")
				_, err = maps[0].Get(t.Context(), podKey)
				g.Expect(err).NotTo(HaveOccurred())
				synctest.Wait()
				notLess("a namespace is back")
				maps[0].Remove(podKey)
				maps[2].Remove(podKey)
				synctest.Wait()
				g.Expect(counted(g, registry)).To(BeEmpty(), "nobody caches the kind any more")
				_, err = maps[0].Get(t.Context(), podKey)
				g.Expect(err).NotTo(HaveOccurred())
				synctest.Wait()
				g.Expect(counted(g, registry)).To(ContainElement(1.0), "its list; the counters begin anew")
				for series, value := range counted(g, registry) {
					g.Expect(value).To(BeNumerically("<=", 1), series)
				}
			})
		})
	}
}

// TestCountersDoNotFallWhenAKindIsRemovedAndMadeAgain between two collections, while a handler of it has not returned.
func TestCountersDoNotFallWhenAKindIsRemovedAndMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		registry := prometheus.NewRegistry()
		counts, err := metrics.New(metrics.Options{Cache: t.Name(), Registerer: registry})
		g.Expect(err).NotTo(HaveOccurred())
		proceed := make(chan struct{})
		letGo := sync.OnceFunc(func() { close(proceed) })
		defer letGo()
		quick := countedMap(t, g, counts, "a", false, func(any, any) {})
		slow := countedMap(t, g, counts, "b", false, func(any, any) { <-proceed })
		before := counted(g, registry)
		g.Expect(before).To(ContainElement(4.0), "events of both namespaces")
		quick.Remove(podKey)
		synctest.Wait()
		slow.Remove(podKey)
		_, err = quick.Get(t.Context(), podKey)
		g.Expect(err).NotTo(HaveOccurred())
		for series, value := range before {
			g.Expect(counted(g, registry)).To(HaveKeyWithValue(series, BeNumerically(">=", value)))
		}
		letGo()
		synctest.Wait()
		quick.Remove(podKey)
		synctest.Wait()
		g.Expect(heldBy(counts)).To(BeZero())
	})
}

// countedMap runs a map of a namespace whose Pod has been changed twice, and read once. Its handler is told of both changes.
func countedMap(t *testing.T, g *WithT, counts *metrics.Metrics, namespace string, shared bool, update func(before, now any)) *Map {
	t.Helper()
	server := &restorable{}
	server.setList(100, pod("first", 90, "n"))
	o := testOptions()
	o.Name, o.Namespace, o.HTTPClient, o.Metrics = t.Name(), namespace, &http.Client{Transport: server}, counts
	o.Tuning = func(schema.GroupVersionKind) KindTuning {
		return map[bool]KindTuning{true: {Storage: OneWatch}}[shared]
	}
	m := NewMap(o)
	running(t, m)
	entry, err := m.Get(t.Context(), podKey)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(entry.WaitForSync(t.Context())).To(Succeed())
	_, err = entry.Informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{UpdateFunc: update})
	g.Expect(err).NotTo(HaveOccurred())
	synctest.Wait() // for the watch
	server.send(`{"type":"MODIFIED","object":` + pod("first", 101, "m") + `}`)
	server.send(`{"type":"MODIFIED","object":` + pod("first", 102, "n") + `}`)
	g.Expect(entry.Reader.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "first"}, &corev1.Pod{})).To(Succeed())
	return m
}

// heldBy returns how many informers the metrics hold, and how many series of ended ones.
func heldBy(counts *metrics.Metrics) int {
	informers, ended := counts.Held()
	return informers + ended
}

// TestMetricsHoldNoInformerThatHasEnded: what has ended leaves its counts alone.
func TestMetricsHoldNoInformerThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		counts, err := metrics.New(metrics.Options{Cache: t.Name(), Registerer: prometheus.NewRegistry()})
		g.Expect(err).NotTo(HaveOccurred())
		server := &restorable{}
		server.setList(100, pod("first", 90, "n"))
		o := testOptions()
		o.Name, o.HTTPClient, o.Metrics = t.Name(), &http.Client{Transport: server}, counts
		m := NewMap(o)
		_, err = m.Get(t.Context(), nodeKey)
		g.Expect(err).NotTo(HaveOccurred())
		m.Remove(nodeKey) // before it has run
		g.Expect(heldBy(counts)).To(BeZero())
		stop := running(t, m)
		for range 3 {
			entry, err := m.Get(t.Context(), podKey)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(entry.WaitForSync(t.Context())).To(Succeed())
			m.Remove(podKey)
			synctest.Wait()
			g.Expect(heldBy(counts)).To(BeZero(), "no informer is left that shares its series")
		}
		_, err = m.Get(t.Context(), podKey)
		g.Expect(err).NotTo(HaveOccurred())
		synctest.Wait()
		stop()
		m.Remove(podKey) // after it has ended
		g.Expect(heldBy(counts)).To(BeZero())
	})
}
