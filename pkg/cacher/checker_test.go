// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tarn-dev/tarn/pkg/cacher"
)

// differences are what a storage can say that the cache does not know of.
var differences = map[string]func(*example.PodList){
	"one is missing":   func(l *example.PodList) { l.Items = l.Items[1:] },
	"one is twice":     func(l *example.PodList) { l.Items = append(l.Items, l.Items[0]) },
	"another revision": func(l *example.PodList) { l.Items[0].ResourceVersion = "1" },
	"another identity": func(l *example.PodList) { l.Items[0].UID = "another" },
	"another name":     func(l *example.PodList) { l.Items[0].Name = "another" },
	"other contents":   func(l *example.PodList) { l.Items[0].Spec.NodeName = "another" },
	"another place":    func(l *example.PodList) { l.Items[0].Namespace, l.Items[0].Name = "defaul", "tone" },
}

// TestInconsistency shows that a difference is found and told, and that lists are answered by
// the storage until there is none any more.
func TestInconsistency(t *testing.T) {
	for name, difference := range differences {
		t.Run(name, func(t *testing.T) {
			var told []error
			bubble(t, func(t *testing.T, s *memoryStorage, c *cacher.Cacher) {
				g := NewWithT(t)
				s.put(numbered("one", 0))
				s.put(numbered("two", 0))
				synctest.Wait()
				g.Expect(c.CheckConsistency(t.Context())).To(Succeed())
				g.Expect(asksStorage(t, s, c)).To(BeFalse())

				s.falsify(difference)
				g.Expect(c.CheckConsistency(t.Context())).To(MatchError(cacher.ErrInconsistent))
				g.Expect(told).To(HaveExactElements(MatchError(cacher.ErrInconsistent)))
				g.Expect(asksStorage(t, s, c)).To(BeTrue())

				s.failLists(errInjected)
				g.Expect(c.CheckConsistency(t.Context())).To(And(MatchError(errInjected), Not(MatchError(cacher.ErrInconsistent))))
				s.failLists(nil)
				g.Expect(asksStorage(t, s, c)).To(BeTrue(), "nothing is known")

				s.falsify(nil)
				g.Expect(c.CheckConsistency(t.Context())).To(Succeed())
				g.Expect(asksStorage(t, s, c)).To(BeFalse())
				g.Expect(told).To(HaveLen(1))
			}, withOptions(cacher.Options{OnInconsistency: func(err error) { told = append(told, err) }}))
		})
	}
}

// asksStorage reports whether lists are answered by the storage.
func asksStorage(t *testing.T, s *memoryStorage, c *cacher.Cacher) bool {
	t.Helper()
	asks := 0
	for _, version := range []string{"", "0"} {
		before := s.listed()
		if err := c.GetList(t.Context(), podPrefix, storage.ListOptions{ResourceVersion: version, Predicate: storage.Everything, Recursive: true}, &example.PodList{}); err != nil {
			t.Fatal(err)
		}
		asks += s.listed() - before
	}
	if asks == 1 {
		t.Error("only one of the lists was answered by the storage")
	}
	return asks > 0
}

// TestConsistencyInterval shows that the cache is compared by itself.
func TestConsistencyInterval(t *testing.T) {
	const interval = 10 * time.Minute
	var told atomic.Int32
	bubble(t, func(t *testing.T, s *memoryStorage, _ *cacher.Cacher) {
		g := NewWithT(t)
		s.put(numbered("one", 0))
		time.Sleep(3 * interval)
		synctest.Wait()
		g.Expect(told.Load()).To(BeZero())
		s.falsify(differences["another revision"])
		time.Sleep(interval)
		synctest.Wait()
		g.Expect(told.Load()).To(BeEquivalentTo(1))
		s.falsify(nil)
		time.Sleep(3 * interval)
		synctest.Wait()
		g.Expect(told.Load()).To(BeEquivalentTo(1))
	}, withOptions(cacher.Options{ConsistencyInterval: interval, OnInconsistency: func(error) { told.Add(1) }}))
}

// TestConsistencyOfNothing compares a cache that is not ready.
func TestConsistencyOfNothing(t *testing.T) {
	bubble(t, func(t *testing.T, _ *memoryStorage, c *cacher.Cacher) {
		c.Stop()
		err := c.CheckConsistency(t.Context())
		if err == nil || errors.Is(err, cacher.ErrInconsistent) {
			t.Errorf("the error is %v", err)
		}
	})
}
