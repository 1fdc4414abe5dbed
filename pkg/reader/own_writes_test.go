// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/note"
	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/pending"
	"github.com/tarn-dev/tarn/internal/store"
	"github.com/tarn-dev/tarn/internal/variable"
	"github.com/tarn-dev/tarn/pkg/index"
	"github.com/tarn-dev/tarn/pkg/reader"
)

// TestAReadLooksForAnEntryWithoutMemory: a Get allocates no more when something lies over the state,
// whether it is what the Get is of or not.
func TestAReadLooksForAnEntryWithoutMemory(t *testing.T) {
	variable.SkipUnderDetector(t, "it loses some of what reads use again")
	g := NewWithT(t)
	s := newEngineStore(g, &corev1.Pod{}, false)
	own := s.reader.ShowOwnWrites(store.OwnWrites{Budget: pending.NewBudget(0)})
	defer own.Close()
	s.put(pod("ns", "a", 1))
	s.put(pod("ns", "b", 2))
	r := reader.New(reader.Options{Store: s.reader, GVK: podKind, Scope: meta.RESTScopeNameNamespace, Fields: index.NewFields(podKind, logr.Discard())})
	out := &corev1.Pod{}
	measure := func(name string) float64 {
		return testing.AllocsPerRun(100, func() {
			g.Expect(r.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, out)).To(Succeed())
		})
	}
	without := measure("a")
	for n := range 5 {
		over := pod("ns", fmt.Sprint("b", n), 10+n)
		if n == 0 {
			over.Name = "b"
		}
		kept := s.item(over)
		own.Note(pending.Entry[object.Object]{Key: kept.Key, Outcome: note.Shown, Revision: kept.Revision, Make: func() (pending.Made[object.Object], error) {
			return pending.Made[object.Object]{Value: kept.Value, Held: true}, nil
		}})
	}
	g.Expect(own.Empty()).To(BeFalse())
	g.Expect(measure("a")).To(Equal(without))
	g.Expect(measure("b")).To(Equal(without))
	g.Expect(out.ResourceVersion).To(Equal("10"))
}

// TestWhoWritesNothingPaysNothing counts the allocations of reads of two stores: one shows pending
// writes and has none, the other cannot show any.
func TestWhoWritesNothingPaysNothing(t *testing.T) {
	variable.SkipUnderDetector(t, "it loses some of what reads use again")
	g := NewWithT(t)
	measure := func(shows bool) (allocations []float64) {
		s := newEngineStore(g, &corev1.Pod{}, false)
		if shows {
			s.reader.ShowOwnWrites(store.OwnWrites{Budget: pending.NewBudget(0)})
		}
		var pods []client.Object
		for n := range 100 {
			pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: fmt.Sprintf("pod-%03d", n), ResourceVersion: "1", Labels: map[string]string{"n": fmt.Sprint(n % 10)},
			}})
		}
		s.replace(pods, 100)
		r := reader.New(reader.Options{Store: s.reader, GVK: podKind, Scope: meta.RESTScopeNameNamespace, Fields: index.NewFields(podKind, logr.Discard())})
		ctx, pod, list := context.Background(), &corev1.Pod{}, &corev1.PodList{}
		for _, read := range []func() error{
			func() error { return r.Get(ctx, client.ObjectKey{Namespace: "ns", Name: "pod-050"}, pod) },
			func() error { return r.List(ctx, list) },
			func() error { return r.List(ctx, list, client.InNamespace("ns")) },
			func() error { return r.List(ctx, list, client.MatchingLabels{"n": "3"}) },
		} {
			allocations = append(allocations, testing.AllocsPerRun(100, func() { g.Expect(read()).To(Succeed()) }))
		}
		return allocations
	}
	without, with := measure(false), measure(true)
	t.Logf("allocations of Get, List, in a namespace, by a label: %v", with)
	g.Expect(with).To(Equal(without))
}
