// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/utils/ptr"

	"github.com/tarn-dev/tarn/pkg/cacher"
)

// likeness runs a test on our Cacher and on upstream's: for what no test of upstream's storage suite asks.
func likeness(t *testing.T, test func(context.Context, *WithT, *fixture)) {
	for _, i := range implementations() {
		if i.cached {
			t.Run(i.name, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				test(ctx, NewWithT(t), run(t, i))
			})
		}
	}
}

func (f *fixture) create(ctx context.Context, g *WithT, name string) *example.Pod {
	made := &example.Pod{}
	g.Expect(f.Create(ctx, podKey("default", name), numbered(name, 0), made, 0)).To(Succeed())
	return made
}

// TestWithoutTheWatchListFeature starts Cachers above a storage that does not stream lists.
func TestWithoutTheWatchListFeature(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.WatchList, false)
	likeness(t, func(ctx context.Context, g *WithT, f *fixture) { // which waits until it is ready
		f.create(ctx, g, "one")
		list, opts := &example.PodList{}, everything("")
		opts.Recursive = true
		g.Expect(f.GetList(ctx, podPrefix, opts, list)).To(Succeed())
		g.Expect(list.Items).To(HaveLen(1))
	})
}

// TestWatchBelowAKey watches what is below a key without saying so.
func TestWatchBelowAKey(t *testing.T) {
	for name, opts := range map[string]storage.ListOptions{
		"state, then events": everything("0"),
		"list as a stream": withBookmarks(storage.ListOptions{
			ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, SendInitialEvents: ptr.To(true), Predicate: storage.Everything,
		}),
	} {
		t.Run(name, func(t *testing.T) {
			opts.Recursive = false
			likeness(t, func(ctx context.Context, g *WithT, f *fixture) {
				one := f.create(ctx, g, "one")
				// The cache has it from here on.
				g.Expect(f.GetList(ctx, podPrefix, everything(one.ResourceVersion), &example.PodList{})).To(Succeed())
				w, err := f.Watch(ctx, podPrefix+"default", opts)
				g.Expect(err).NotTo(HaveOccurred())
				defer w.Stop()
				var names []string
				for event := range w.ResultChan() {
					if event.Type == watch.Added {
						names = append(names, podOf(event.Object).Name)
					}
					if len(names) == 1 && event.Type != watch.Bookmark {
						f.create(ctx, g, "two")
					}
					if len(names) == 2 {
						break
					}
				}
				g.Expect(names).To(Equal([]string{"one", "two"}))
			})
		})
	}
}

// TestTooLargeVersionWithLittleTime asks for a revision that does not come while there is time.
func TestTooLargeVersionWithLittleTime(t *testing.T) {
	bubble(t, func(t *testing.T, s *memoryStorage, c *cacher.Cacher) {
		g := NewWithT(t)
		s.put(numbered("one", 0))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		opts := withBookmarks(everything("1000"))
		opts.SendInitialEvents = ptr.To(true)
		w, err := c.Watch(ctx, podPrefix, opts)
		g.Expect(err).NotTo(HaveOccurred())
		event := <-w.ResultChan()
		g.Expect(event.Type).To(Equal(watch.Error))
		g.Expect(storage.IsTooLargeResourceVersion(apierrors.FromObject(event.Object))).To(BeTrue(), "%v", event.Object)
		g.Expect(time.Since(begin)).To(Equal(time.Second))
		g.Expect(storage.IsTooLargeResourceVersion(c.GetList(ctx, podPrefix, everything("1000"), &example.PodList{}))).To(BeTrue())

		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		g.Expect(c.GetList(cancelled, podPrefix, everything("1000"), &example.PodList{})).To(MatchError(context.Canceled))
	})
}

// TestNoBookmarkForWhatAWatchBeganWith waits for bookmarks where nothing happens.
func TestNoBookmarkForWhatAWatchBeganWith(t *testing.T) {
	bubble(t, func(t *testing.T, s *memoryStorage, c *cacher.Cacher) {
		g := NewWithT(t)
		s.put(numbered("one", 0))
		synctest.Wait()
		w := watchAll(t, c, withBookmarks(everything("2")))
		time.Sleep(3 * time.Minute)
		events, open := available(w)
		g.Expect(open).To(BeTrue())
		g.Expect(events).To(BeEmpty(), "it knows of that")
		s.put(numbered("two", 0))
		time.Sleep(70 * time.Second)
		events, _ = available(w)
		g.Expect(events).To(HaveLen(2))
		g.Expect(events[1].Type).To(Equal(watch.Bookmark))
	})
}

// TestAnIndexIsNotAllThatIsAskedFor lists by a label that has an index, and by something else.
func TestAnIndexIsNotAllThatIsAskedFor(t *testing.T) {
	bubble(t, func(t *testing.T, s *memoryStorage, c *cacher.Cacher) {
		g := NewWithT(t)
		for i := range 400 {
			pod := numbered(fmt.Sprint("pod-", i), 0)
			pod.Labels = map[string]string{"tenth": fmt.Sprint(i % 10)}
			if i%20 == 3 {
				pod.Labels["even"] = "no"
			}
			s.put(pod)
		}
		list := func(label labels.Selector, field fields.Selector) int {
			synctest.Wait() // until the index that was asked for is there
			opts, found := everything("0"), &example.PodList{}
			opts.Recursive = true
			opts.Predicate.Label, opts.Predicate.Field = label, field
			g.Expect(c.GetList(t.Context(), podPrefix, opts, found)).To(Succeed())
			return len(found.Items)
		}
		selector := func(text string) labels.Selector {
			parsed, err := labels.Parse(text)
			g.Expect(err).NotTo(HaveOccurred())
			return parsed
		}
		for range 2 { // without an index, and with it
			g.Expect(list(selector("tenth=3"), fields.Everything())).To(Equal(40))
		}
		g.Expect(list(selector("tenth in (3,4)"), fields.Everything())).To(Equal(80))
		g.Expect(list(selector("tenth=3,tenth!=3"), fields.Everything())).To(BeZero())
		g.Expect(list(selector("tenth=3,even=no"), fields.Everything())).To(Equal(20))
		g.Expect(list(selector("tenth=3"), fields.Nothing())).To(BeZero())
		g.Expect(list(selector("tenth=3"), fields.OneTermEqualSelector("metadata.name", "pod-13"))).To(Equal(1))
		g.Expect(list(selector("tenth=3"), fields.OneTermNotEqualSelector("metadata.name", "pod-13"))).To(Equal(39))
		g.Expect(list(labels.Nothing(), fields.Everything())).To(BeZero())
	})
}
