// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package ordered

import (
	goruntime "runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
)

// goroutines returns how many there are when those of a bubble that are ending have ended.
func goroutines() int {
	synctest.Wait()
	least := goruntime.NumGoroutine()
	for range 1000 {
		goruntime.Gosched()
		least = min(least, goruntime.NumGoroutine())
	}
	return least
}

func TestWatchEndsWithItsSource(t *testing.T) {
	g := NewWithT(t)
	from := watch.NewFakeWithChanSize(2, false)
	ordered := New(from, func(e watch.Event) watch.Event { e.Type = watch.Modified; return e })
	from.Add(&corev1.Pod{})
	g.Expect((<-ordered.ResultChan()).Type).To(Equal(watch.Modified))
	from.Stop()
	_, open := <-ordered.ResultChan()
	g.Expect(open).To(BeFalse())
	ordered.Stop()
}

func TestWatchKeepsTheOrder(t *testing.T) {
	g := NewWithT(t)
	from := watch.NewFakeWithChanSize(500, false)
	for i := range 500 {
		from.Add(&corev1.Pod{Spec: corev1.PodSpec{Priority: ptr.To(int32(i))}})
	}
	from.Stop()
	var atOnce, most atomic.Int32
	ordered := New(from, func(e watch.Event) watch.Event {
		most.Store(max(most.Load(), atOnce.Add(1)))
		for range 100 * (*e.Object.(*corev1.Pod).Spec.Priority % 7) { // some take longer
			goruntime.Gosched()
		}
		atOnce.Add(-1)
		return e
	})
	next := int32(0)
	for e := range ordered.ResultChan() {
		g.Expect(*e.Object.(*corev1.Pod).Spec.Priority).To(Equal(next))
		next++
	}
	g.Expect(next).To(Equal(int32(500)))
	if goruntime.GOMAXPROCS(0) > 1 {
		g.Expect(most.Load()).To(BeNumerically(">", 1), "several events are worked on at once")
	}
}

// TestAWatchHasWorkersOnlyWhileEventsAreQueued: many informers are idle most of the time.
func TestAWatchHasWorkersOnlyWhileEventsAreQueued(t *testing.T) {
	const cores, events = 4, 20
	defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(cores))
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		from, release := watch.NewFakeWithChanSize(events, false), make(chan struct{})
		before := goroutines()
		goroutines := func() int { return goroutines() - before }
		ordered := New(from, func(e watch.Event) watch.Event { <-release; return e })
		g.Expect(goroutines()).To(BeNumerically("<=", 1), "that of the watch")
		from.Add(&corev1.Pod{})
		g.Expect(goroutines()).To(BeNumerically("<=", 1), "an event that comes alone needs no other")
		for range events - 1 {
			from.Add(&corev1.Pod{})
		}
		release <- struct{}{}
		<-ordered.ResultChan()
		g.Expect(goroutines()).To(BeNumerically("<=", 2+cores), "a sender, and workers")
		g.Expect(workers.Load()).To(BeEquivalentTo(cores))
		close(release)
		for range events - 1 {
			<-ordered.ResultChan()
		}
		g.Expect(goroutines()).To(BeNumerically("<=", 1))
		g.Expect(workers.Load()).To(BeZero())
		ordered.Stop()
		g.Expect(goroutines()).To(BeNumerically("<=", 0))
	})
}

// TestAWatchGoesOnWithoutWorkers: others may have all of them, and keep them.
func TestAWatchGoesOnWithoutWorkers(t *testing.T) {
	const events = 100
	taken := int32(goruntime.GOMAXPROCS(0))
	workers.Add(taken)
	defer workers.Add(-taken)
	g := NewWithT(t)
	from := watch.NewFakeWithChanSize(events, false)
	for i := range events {
		from.Add(&corev1.Pod{Spec: corev1.PodSpec{Priority: ptr.To(int32(i))}})
	}
	ordered := New(from, func(e watch.Event) watch.Event { e.Type = watch.Modified; return e })
	for i := range events {
		e := <-ordered.ResultChan()
		g.Expect(e.Type).To(Equal(watch.Modified))
		g.Expect(*e.Object.(*corev1.Pod).Spec.Priority).To(BeEquivalentTo(i))
	}
	ordered.Stop()
}

func TestStopOfAWatchWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		from, release, stopped := watch.NewFakeWithChanSize(3, false), make(chan struct{}), make(chan struct{})
		ordered := New(from, func(e watch.Event) watch.Event { <-release; return e })
		for range 3 {
			from.Add(&corev1.Pod{})
		}
		synctest.Wait()
		go func() {
			ordered.Stop()
			close(stopped)
		}()
		synctest.Wait()
		g.Expect(stopped).NotTo(BeClosed(), "the function is working on an event")
		close(release)
		<-stopped
	})
}

func TestWatchEndsWhenStoppedWithAnEventUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // fails if a goroutine is left
		from := watch.NewFakeWithChanSize(2, false)
		ordered := New(from, func(e watch.Event) watch.Event { return e })
		from.Add(&corev1.Pod{})
		synctest.Wait()
		ordered.Stop()
		ordered.Stop()
		synctest.Wait()
	})
}
