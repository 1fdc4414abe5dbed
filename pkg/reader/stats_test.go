// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/variable"
	"github.com/tarn-dev/tarn/pkg/reader"
)

// plansOf returns how many reads there were by each plan, and how many were measured.
func plansOf(f fixture) (counts, measured map[string]int) {
	counts, measured = map[string]int{}, map[string]int{}
	for _, by := range f.Stats().Reads {
		counts[by.Plan.String()], measured[by.Plan.String()] = int(by.Count), int(by.Durations.Count)
	}
	return counts, measured
}

func TestStatsCountReadsByPlan(t *testing.T) {
	onEveryStore(t, func(t *testing.T, store string) {
		f := pods(t, store)
		for n := range 200 {
			f.store.put(pod(fmt.Sprint("ns-", n%2), fmt.Sprint("pod-", n), n+1))
		}
		f.Expect(f.fields.Declare(f.store, "spec.nodeName", func(obj client.Object) []string {
			return []string{obj.(*corev1.Pod).Spec.NodeName}
		})).To(Succeed())
		f.Expect(f.Stats().Reads).To(BeEmpty())
		ctx, list := t.Context(), &corev1.PodList{}
		for range 130 {
			f.Expect(f.Get(ctx, client.ObjectKey{Namespace: "ns-0", Name: "pod-0"}, &corev1.Pod{})).To(Succeed())
		}
		for _, opts := range [][]client.ListOption{
			{}, {client.InNamespace("ns-0")}, {client.Limit(3)},
			{client.MatchingFields{"spec.nodeName": "node-of-pod-7"}},
			{client.MatchingLabels{"name": "pod-7"}},
			{client.MatchingFieldsSelector{Selector: fields.OneTermNotEqualSelector("spec.nodeName", "any")}},
			{client.InNamespace("ns-0"), client.MatchingFields{"metadata.name": "pod-0"}},
		} {
			f.Expect(f.List(ctx, list, opts...)).To(Succeed())
		}
		counts, measured := plansOf(f)
		f.Expect(counts).To(Equal(map[string]int{"key": 131, "index": 1, "all": 3, "scan": 2}))
		f.Expect(measured["key"]).To(BeNumerically("~", 4, 2), "a list, and each 64th of 130 Gets")
		delete(counts, "key")
		delete(measured, "key")
		f.Expect(measured).To(Equal(counts), "each list is measured")
		s := f.Stats()
		f.Expect(s.LabelScans).To(Equal(uint64(1)))
		for range reader.Iterate(ctx, &corev1.Pod{}, &client.ListOptions{}, f.CacheReader) {
		}
		counts, _ = plansOf(f)
		f.Expect(counts["all"]).To(Equal(4))
		if s.Store == nil {
			f.Expect(store).To(Equal("indexer"))
			return
		}
		f.Expect(s.Store.Objects).To(Equal(200))
		f.Expect(s.Store.Indexes).To(ConsistOf(And(
			HaveField("Name", "spec.nodeName"), HaveField("Label", false), HaveField("Pairs", 200), HaveField("Hits", uint64(1)),
		)))
		m := s.Store.Memory
		f.Expect(m.Flat > 0).To(Equal(store == "flat engine"))
		f.Expect(m.Decoded > 0).To(Equal(store == "decoded engine"))
		f.Expect([]int{m.Tree, m.FieldIndexes, m.Retained + 1}).To(HaveEach(BeNumerically(">", 0)))
		f.Expect(s.Store.KeptStates).To(Equal(1), "the list with a limit has pages to come")
	})
}

// TestStatsShowIndexesOfLabels with their hits, as long as they are there.
func TestStatsShowIndexesOfLabels(t *testing.T) {
	f := pods(t, "flat engine")
	for n := range 200 {
		f.store.put(pod("ns", fmt.Sprint("pod-", n), n+1))
	}
	for range 5 {
		f.Expect(f.List(t.Context(), &corev1.PodList{}, client.MatchingLabels{"name": "pod-7"})).To(Succeed())
	}
	s := f.Stats()
	f.Expect(s.Store.Indexes).To(HaveLen(1))
	one := s.Store.Indexes[0]
	f.Expect(one.Name).To(Equal("name"))
	f.Expect(one.Label).To(BeTrue())
	f.Expect(one.Hits + s.LabelScans).To(Equal(uint64(5)))
	f.Expect(one.Hits).To(BeNumerically(">", 0))
	f.Expect(s.Store.Memory.LabelIndexes).To(Equal(one.Bytes))
}

// TestAReadThatIsCountedTakesNoMoreMemory than one of a reader that counts nothing.
func TestAReadThatIsCountedTakesNoMoreMemory(t *testing.T) {
	variable.SkipUnderDetector(t, "it loses some of what reads use again")
	f := pods(t, "flat engine")
	for n := range 200 {
		f.store.put(pod("ns", fmt.Sprint("pod-", n), n+1))
	}
	uncounted := f.CacheReader.Uncounted()
	ctx, key := t.Context(), client.ObjectKey{Namespace: "ns", Name: "pod-0"}
	obj, list := &corev1.Pod{}, &corev1.PodList{}
	for name, read := range map[string]func(r *reader.CacheReader){
		"a Get":  func(r *reader.CacheReader) { _ = r.Get(ctx, key, obj) },
		"a List": func(r *reader.CacheReader) { _ = r.List(ctx, list, client.InNamespace("ns"), client.Limit(1)) },
	} {
		without := testing.AllocsPerRun(200, func() { read(uncounted) })
		with := testing.AllocsPerRun(200, func() { read(f.CacheReader) })
		if with > without {
			t.Errorf("%s takes %v allocations, and %v if it is counted", name, without, with)
		}
	}
}
