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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tarn-dev/tarn/pkg/cacher"
)

var errExpired = apierrors.NewResourceExpired("injected")

// TestCompactionBehindTheCache compacts what the cache has not seen yet: watchers are ended,
// told 410 when they resume, and find everything when they begin anew.
func TestCompactionBehindTheCache(t *testing.T) {
	bubble(t, func(t *testing.T, s *memoryStorage, c *cacher.Cacher) {
		g := NewWithT(t)
		following, stuck := watchAll(t, c, everything("1")), watchAll(t, c, everything("1"))
		for n := range 40 {
			s.put(numbered("one", n))
			synctest.Wait()
		}
		seen, open := available(following)
		g.Expect(open).To(BeTrue())
		last := contiguous(t, seen, 1)
		s.pause()
		s.remove(podKey("default", "one"))
		s.put(numbered("two", 0))
		s.compact(s.now())
		s.resume()
		time.Sleep(10 * time.Second)
		for name, w := range map[string]watch.Interface{"following": following, "stuck": stuck} {
			events, open := available(w)
			g.Expect(open).To(BeFalse(), name)
			if n := len(events); n > 0 && events[n-1].Type == watch.Error {
				g.Expect(apierrors.IsResourceExpired(apierrors.FromObject(events[n-1].Object))).To(BeTrue())
				events = events[:n-1]
			}
			after := uint64(1)
			if name == "following" {
				after = last
			}
			contiguous(t, events, after)
		}
		events, open := available(watchAll(t, c, everything(fmt.Sprint(last))))
		g.Expect(open).To(BeFalse())
		g.Expect(events).To(HaveLen(1))
		g.Expect(apierrors.IsResourceExpired(apierrors.FromObject(events[0].Object))).To(BeTrue())
		events, open = available(watchAll(t, c, everything("0")))
		g.Expect(open).To(BeTrue())
		g.Expect(events).To(HaveLen(1))
		g.Expect(podOf(events[0].Object).Name).To(Equal("two"))
	})
}

// TestStorageWatchIsClosed closes the watch of the cache without a reason: no watcher notices.
func TestStorageWatchIsClosed(t *testing.T) {
	bubble(t, func(t *testing.T, s *memoryStorage, c *cacher.Cacher) {
		g := NewWithT(t)
		w := watchAll(t, c, everything("1"))
		for n := range 30 {
			time.Sleep(time.Second) // a watch that ends at once has failed for a Reflector
			s.put(numbered("one", n))
			if n%10 == 9 {
				s.breakWatches(nil)
			}
		}
		time.Sleep(time.Minute)
		events, open := available(w)
		g.Expect(open).To(BeTrue())
		g.Expect(contiguous(t, events, 1)).To(BeEquivalentTo(31))
	})
}

// TestStorageCannotList lets the cache begin anew from a storage that fails: who asks is told
// to come back, or is answered by the storage, until it works again.
func TestStorageCannotList(t *testing.T) {
	for _, streams := range []bool{false, true} {
		t.Run(fmt.Sprintf("streams=%v", streams), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memoryStorage, c *cacher.Cacher) {
				g := NewWithT(t)
				s.put(numbered("one", 0))
				synctest.Wait()
				w := watchAll(t, c, everything("0"))
				s.failLists(errInjected)
				s.streams = false
				s.breakWatches(errExpired)
				time.Sleep(time.Minute)
				_, open := available(w)
				g.Expect(open).To(BeFalse())
				g.Expect(c.ReadinessCheck()).To(MatchError(storage.ErrStorageNotReady))
				g.Expect(c.CheckConsistency(t.Context())).To(MatchError(ContainSubstring(errInjected.Error())))

				_, err := c.Watch(t.Context(), podPrefix, everything("0"))
				g.Expect(tooMany(err)).To(Equal(30), "a cache that is down for long")
				for _, version := range []string{"", "0", "2"} {
					opts := storage.ListOptions{ResourceVersion: version, Predicate: storage.Everything, Recursive: true}
					g.Expect(tooMany(c.GetList(t.Context(), podPrefix, opts, &example.PodList{}))).To(Equal(30), "a list at %q", version)
					opts.Predicate.Limit = 10
					g.Expect(c.GetList(t.Context(), podPrefix, opts, &example.PodList{})).To(MatchError(errInjected), "the storage is asked")
				}
				g.Expect(c.Get(t.Context(), podKey("default", "one"), storage.GetOptions{ResourceVersion: "0"}, newPod())).To(Succeed())

				s.put(numbered("two", 0))
				s.failLists(nil)
				time.Sleep(time.Minute)
				g.Expect(c.ReadinessCheck()).To(Succeed())
				events, open := available(watchAll(t, c, everything("0")))
				g.Expect(open).To(BeTrue())
				g.Expect(events).To(HaveLen(2))
			}, func(*setup) {})
		})
	}
}

// tooMany returns the seconds after which to come back, 0 if err is no 429.
func tooMany(err error) int {
	if !apierrors.IsTooManyRequests(err) {
		return 0
	}
	seconds, _ := apierrors.SuggestsClientDelay(err)
	return seconds
}

// TestNeverReady starts a Cacher on a storage that fails, and stops it.
func TestNeverReady(t *testing.T) {
	supportProgress(t)
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		s := newMemoryStorage()
		t.Cleanup(s.forwards.Wait)
		s.failLists(errInjected)
		config := validConfig()
		config.Storage = s
		c, err := cacher.New(config)
		g.Expect(err).NotTo(HaveOccurred())
		time.Sleep(time.Minute)
		g.Expect(c.ReadinessCheck()).To(MatchError(storage.ErrStorageNotReady))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		g.Expect(c.Wait(ctx)).To(MatchError(context.DeadlineExceeded))
		waited := make(chan error, 1)
		go func() { waited <- c.Wait(context.Background()) }()
		synctest.Wait()
		c.Stop()
		g.Expect(<-waited).To(MatchError(ContainSubstring("stopped")))
	})
}

// TestObjectThatCannotBeRead gives the cache objects whose labels and fields cannot be told:
// it must not go on as if they were not there.
func TestObjectThatCannotBeRead(t *testing.T) {
	supportProgress(t)
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		s := newMemoryStorage()
		t.Cleanup(s.forwards.Wait)
		config := validConfig()
		config.Storage = s
		keyFunc := config.KeyFunc
		config.KeyFunc = func(obj runtime.Object) (string, error) {
			if obj.(*example.Pod).Name == "bad" {
				return "", errInjected
			}
			return keyFunc(obj)
		}
		c, err := cacher.New(config)
		g.Expect(err).NotTo(HaveOccurred())
		t.Cleanup(c.Stop)
		s.put(numbered("one", 0))
		synctest.Wait()
		w := watchAll(t, c, everything("1"))
		s.put(numbered("bad", 0))
		time.Sleep(10 * time.Second)
		events, open := available(w)
		g.Expect(open).To(BeFalse(), "an event cannot be told of")
		g.Expect(events).To(HaveLen(1))
		g.Expect(c.ReadinessCheck()).To(MatchError(storage.ErrStorageNotReady))
		s.remove(podKey("default", "bad"))
		s.put(numbered("two", 0))
		time.Sleep(time.Minute)
		g.Expect(c.ReadinessCheck()).To(Succeed())
		events, _ = available(watchAll(t, c, everything("0")))
		g.Expect(events).To(HaveLen(2))
		g.Expect(c.CheckConsistency(t.Context())).To(Succeed())
	})
}

// TestCorruptObject writes what cannot be read back for a while, into etcd: watchers wait, and
// get everything once when it can.
func TestCorruptObject(t *testing.T) {
	transformer := newFailingTransformer()
	f := run(t, implementations()[0], withTransformer(transformer))
	g := NewWithT(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w, err := f.Watch(ctx, podPrefix, storage.ListOptions{ResourceVersion: "0", Predicate: storage.Everything, Recursive: true})
	g.Expect(err).NotTo(HaveOccurred())
	transformer.fail.Store(true)
	for n := range 3 {
		pod := numbered(fmt.Sprint("pod-", n), n)
		g.Expect(f.Create(ctx, podKey("default", pod.Name), pod, &example.Pod{}, 0)).To(Succeed())
	}
	g.Eventually(transformer.failed.Load).WithTimeout(10 * time.Second).WithPolling(time.Millisecond).Should(BeNumerically(">", 0))
	transformer.fail.Store(false)
	for n := range 3 {
		event := <-w.ResultChan()
		g.Expect(event.Type).To(Equal(watch.Added))
		g.Expect(podOf(event.Object).Name).To(Equal(fmt.Sprint("pod-", n)))
	}
	g.Expect(f.Interface.(*cacher.Cacher).CheckConsistency(ctx)).To(Succeed())
}
