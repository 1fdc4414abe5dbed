// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tarn-dev/tarn/pkg/cacher"
)

// values returns what is registered, by name and the values of the labels other than group and
// resource.
func values(t *testing.T, registry prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := family.GetName()
			for _, label := range metric.GetLabel() {
				switch label.GetName() {
				case "group":
				case "resource":
					if label.GetValue() != pods.Resource {
						t.Errorf("%s is of the resource %s", name, label.GetValue())
					}
				default:
					name += " " + label.GetValue()
				}
			}
			found[name] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount())
		}
	}
	return found
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	bubble(t, func(t *testing.T, s *memoryStorage, c *cacher.Cacher) {
		g := NewWithT(t)
		slow := watchAll(t, c, everything("1"))
		for n := range 60 {
			s.put(numbered("one", n))
			synctest.Wait()
		}
		available(slow)
		list := func(p storage.SelectionPredicate, version string) {
			g.Expect(c.GetList(t.Context(), podPrefix, storage.ListOptions{ResourceVersion: version, Predicate: p, Recursive: true}, &example.PodList{})).To(Succeed())
		}
		list(storage.Everything, "")
		list(storage.SelectionPredicate{Label: labels.Everything(), Field: fields.OneTermEqualSelector("spec.nodeName", "nowhere"), GetAttrs: podAttributes}, "0")
		g.Expect(c.CheckConsistency(t.Context())).To(Succeed())
		s.bump()
		list(storage.Everything, "") // which waits
		s.breakWatches(apierrors.NewResourceExpired("injected"))
		synctest.Wait()
		got := values(t, registry)
		g.Expect(got).To(HaveKeyWithValue("apiserver_watch_cache_events_received_total", 60.0))
		g.Expect(got).To(HaveKeyWithValue("apiserver_watch_cache_events_dispatched_total", 60.0))
		g.Expect(got).To(HaveKeyWithValue("apiserver_watch_cache_initializations_total", 1.0))
		g.Expect(got).To(HaveKeyWithValue("apiserver_watch_cache_consistent_read_total false true", 2.0))
		g.Expect(got).To(HaveKeyWithValue("apiserver_watch_cache_read_wait_seconds", 1.0))
		g.Expect(got).To(HaveKeyWithValue("apiserver_watch_cache_resource_version", 62.0))
		g.Expect(got).To(HaveKeyWithValue("apiserver_cache_list_total ", 2.0))
		g.Expect(got).To(HaveKeyWithValue("apiserver_cache_list_returned_objects_total", 2.0))
		g.Expect(got).To(HaveKeyWithValue("apiserver_storage_consistency_checks_total success", 1.0))
		g.Expect(got).To(HaveKeyWithValue("tarn_cacher_watchers_catching_up_total", BeNumerically(">", 0)))
		g.Expect(got).To(HaveKeyWithValue("apiserver_terminated_watchers_total", 1.0))
	}, indexed, withOptions(cacher.Options{Registerer: registry, HistoryEvents: 30}))
}

// TestMetricsOfASuccessor replaces a Cacher by another one of the same resource, as happens
// when a custom resource definition is changed: the old one ends when the new one works.
func TestMetricsOfASuccessor(t *testing.T) {
	registry := prometheus.NewRegistry()
	o := withOptions(cacher.Options{Registerer: registry})
	bubble(t, func(t *testing.T, s *memoryStorage, old *cacher.Cacher) {
		g := NewWithT(t)
		next := startOn(t, s, o)
		synctest.Wait()
		s.put(numbered("one", 0))
		synctest.Wait()
		old.Stop()
		s.put(numbered("one", 1))
		synctest.Wait()
		got := values(t, registry)
		g.Expect(got).To(HaveKeyWithValue("apiserver_watch_cache_events_received_total", 3.0))
		g.Expect(got).To(HaveKeyWithValue("apiserver_watch_cache_resource_version", 3.0))
		next.Stop()
		g.Expect(values(t, registry)).To(BeEmpty(), "nothing is left of a resource that is gone")
	}, o)
}

// TestMetricsOfOthers registers where the names are taken.
func TestMetricsOfOthers(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "apiserver_watch_cache_events_received_total"}))
	config := validConfig()
	config.Registerer = registry
	_, err := cacher.New(config)
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("metrics of the cacher of pods")))
}

// TestIndexesInMetrics shows that what clients ask for makes no series: they could make ever more.
func TestIndexesInMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	bubble(t, func(t *testing.T, s *memoryStorage, c *cacher.Cacher) {
		g := NewWithT(t)
		for n := range 500 {
			pod := numbered(fmt.Sprintf("pod-%03d", n), n)
			pod.Labels = map[string]string{}
			for label := range 5 {
				pod.Labels[fmt.Sprint("label-", label)] = fmt.Sprint(n)
			}
			s.put(pod)
		}
		synctest.Wait()
		before := len(values(t, registry))
		for range 5 {
			for label := range 5 {
				p := storage.SelectionPredicate{Label: labels.SelectorFromSet(labels.Set{fmt.Sprint("label-", label): "7"}), GetAttrs: podAttributes}
				var list example.PodList
				g.Expect(c.GetList(t.Context(), podPrefix, storage.ListOptions{ResourceVersion: "0", Predicate: p, Recursive: true}, &list)).To(Succeed())
				g.Expect(list.Items).To(HaveLen(1))
			}
		}
		after := values(t, registry)
		g.Expect(after).To(HaveKey("apiserver_cache_list_total label"))
		g.Expect(len(after) - before).To(BeNumerically("<", 10))
		p := storage.SelectionPredicate{Label: labels.Everything(), Field: fields.OneTermEqualSelector("spec.nodeName", "nowhere"), GetAttrs: podAttributes}
		g.Expect(c.GetList(t.Context(), podPrefix, storage.ListOptions{ResourceVersion: "0", Predicate: p, Recursive: true}, &example.PodList{})).To(Succeed())
		g.Expect(values(t, registry)).To(HaveKey("apiserver_cache_list_total f:spec.nodeName"), "what is configured has its name")
	}, indexed, withOptions(cacher.Options{Registerer: registry}))
}
