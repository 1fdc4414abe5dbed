// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ofVersion returns a ConfigMap of a version.
func ofVersion(key, version string) *corev1.ConfigMap {
	cm := configMap(key, version)
	cm.ResourceVersion = version
	return cm
}

func TestStatsCountEventsByType(t *testing.T) {
	g := NewWithT(t)
	i, err := New(noSource, Options{Example: &corev1.ConfigMap{}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(i.Stats().Events).To(BeZero())
	in := i.store
	g.Expect(in.Replace([]any{ofVersion("ns/a", "1"), ofVersion("ns/b", "1")}, "1")).To(Succeed())
	g.Expect(in.Add(ofVersion("ns/c", "2"))).To(Succeed())
	g.Expect(in.Update(ofVersion("ns/c", "3"))).To(Succeed())
	g.Expect(in.Update(ofVersion("ns/c", "4"))).To(Succeed())
	g.Expect(in.Delete(ofVersion("ns/a", "5"))).To(Succeed())
	g.Expect(in.Bookmark("6")).To(Succeed())
	s := i.Stats()
	g.Expect(s.Events).To(Equal(Events{Added: 1, Updated: 2, Deleted: 1, Bookmarks: 1}), "a list is no event")
	g.Expect(s.Lists).To(Equal(uint64(1)))
	g.Expect(s.Told).NotTo(BeZero())
}

// TestStatsShowAHandlerThatIsBehind, and nothing of it when it has caught up or was removed.
func TestStatsShowAHandlerThatIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, implementation{new: newOwnInformer(false, asDecodedEvents), ours: true}, setting{}, true)
		i, gate := r.informer.(*Informer), r.gate()
		slow := r.handle(toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(any, any) { gate.pass() }})
		r.handle(toolscache.ResourceEventHandlerFuncs{})
		time.Sleep(time.Minute)
		r.Expect(i.Stats().Begun).To(BeZero())
		r.server.put(configMap("ns/a", "1"), configMap("ns/b", "1"))
		r.start()
		r.Expect(i.Stats().Synced).To(BeTemporally("==", i.Stats().Begun), "in a bubble lists take no time")
		r.Expect(behind(i)).To(ConsistOf(0, 0))
		r.Expect(i.Stats().Called).To(Equal(uint64(4)))

		r.server.put(configMap("ns/a", "2"))
		r.elapse(10 * time.Second)
		r.server.put(configMap("ns/a", "3"), configMap("ns/b", "2"))
		r.elapse(5 * time.Second)
		r.Expect(behind(i)).To(ConsistOf(0, 3))
		s := i.Stats()
		r.Expect([]time.Duration{s.Handlers[0].Since, s.Handlers[1].Since}).To(ConsistOf(time.Duration(0), 15*time.Second))
		r.Expect(i.Memory().Events).To(Equal(2))
		r.Expect(i.Memory().Window).To(BeNumerically(">", 2*100))

		gate.open()
		r.settle()
		r.Expect(behind(i)).To(ConsistOf(0, 0))
		s = i.Stats()
		r.Expect(s.Called).To(Equal(uint64(4 + 3 + 3)))
		r.Expect(i.Memory().Events).To(BeZero())
		r.Expect(r.informer.RemoveEventHandler(slow)).To(Succeed())
		after := i.Stats()
		r.Expect(after.Handlers).To(HaveLen(1))
		r.Expect(after.Called).To(Equal(s.Called), "a counter does not go back")
		r.Expect(after.Calls).To(Equal(s.Calls))
	})
}

// TestStatsHaveTheDurationsOfOneInEightCalls, the first among them.
func TestStatsHaveTheDurationsOfOneInEightCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, implementation{new: newOwnInformer(false, asDecodedEvents), ours: true}, setting{}, true)
		r.handle(toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) { time.Sleep(15 * time.Second) }})
		for n := range 17 {
			r.server.put(configMap(fmt.Sprint("ns/", n), "1"))
		}
		r.start()
		r.elapse(14 * time.Second)
		r.Expect(r.informer.(*Informer).Stats().Calls.Count).To(BeZero(), "no call has returned")
		r.elapse(time.Hour)
		s := r.informer.(*Informer).Stats()
		r.Expect(s.Called).To(Equal(uint64(17)))
		r.Expect(s.Calls.Count).To(Equal(uint64(3)))
		r.Expect(s.Calls.Mean()).To(Equal(15 * time.Second))
	})
}

// behind returns how many events each handler is behind.
func behind(i *Informer) (events []int) {
	for _, h := range i.Stats().Handlers {
		events = append(events, int(h.Behind))
	}
	return events
}

// TestStatsCountHandlersThatFellOutOfTheWindow, also when the handler is removed.
func TestStatsCountHandlersThatFellOutOfTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, implementation{new: newOwnInformer(false, asDecodedEvents), ours: true}, setting{}, true)
		i, gate := r.informer.(*Informer), r.gate()
		registration := r.handle(toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) { gate.pass() }})
		r.server.put(configMap("ns/a", "1"))
		r.start()
		for range 3 * conformanceWindow {
			r.server.put(configMap("ns/b", "1"))
			r.settle()
		}
		gate.open()
		r.settle()
		r.Expect(i.Stats().Lagged).To(Equal(uint64(1)))
		r.Expect(r.informer.RemoveEventHandler(registration)).To(Succeed())
		r.Expect(i.Stats().Lagged).To(Equal(uint64(1)))
	})
}

// TestUnindexedAreTheVersionsThatAnIndexFunctionPanickedAt: one ends with a newer version, with the
// object, or with a list without it.
func TestUnindexedAreTheVersionsThatAnIndexFunctionPanickedAt(t *testing.T) {
	goOnAfterPanics(t)
	g := NewWithT(t)
	woken := 0
	i, err := New(noSource, Options{Example: &corev1.ConfigMap{}, Observer: Observer{Lost: func() { woken++ }}})
	g.Expect(err).NotTo(HaveOccurred())
	odd := errors.New("odd")
	g.Expect(i.AddField("value", func(obj client.Object) []string {
		if obj.(*corev1.ConfigMap).Data["value"] != "1" {
			panic(odd)
		}
		return nil
	})).To(Succeed())
	in := i.store
	unindexed := func() int {
		n, err := i.Unindexed()
		g.Expect(err == nil).To(Equal(n == 0))
		return n
	}
	bad := func(key, version string) *corev1.ConfigMap {
		cm := ofVersion(key, version)
		cm.Data["value"] = "odd"
		return cm
	}
	good := func(key, version string) *corev1.ConfigMap {
		cm := ofVersion(key, version)
		cm.Data["value"] = "1"
		return cm
	}
	g.Expect(in.Replace([]any{good("ns/a", "1"), bad("ns/b", "2"), bad("ns/c", "3")}, "3")).To(Succeed())
	g.Expect(unindexed()).To(Equal(2))
	g.Expect(woken).To(BeNumerically(">=", 2))
	g.Expect(in.Update(good("ns/b", "4"))).To(Succeed())
	g.Expect(unindexed()).To(Equal(1))
	_, why := i.Unindexed()
	g.Expect(why.Object.String()).To(Equal("ns/c"))
	g.Expect(why).To(MatchError(odd))
	g.Expect(in.Delete(good("ns/c", "5"))).To(Succeed())
	g.Expect(unindexed()).To(BeZero())

	older, newer := in.form.Keep(good("ns/a", "6")), bad("ns/a", "7") // decoded at the same time
	kept := in.form.Keep(newer)
	g.Expect(in.Update(&decodedEvent{kept: older, metadata: good("ns/a", "6")})).To(Succeed())
	g.Expect(unindexed()).To(Equal(1), "the newer version is still to come")
	g.Expect(in.Update(&decodedEvent{kept: kept, metadata: newer})).To(Succeed())
	g.Expect(unindexed()).To(Equal(1))
	g.Expect(in.Replace([]any{good("ns/b", "8")}, "8")).To(Succeed())
	g.Expect(unindexed()).To(BeZero())
}

// TestAnEventThatIsCountedTakesNoMoreMemory than an event that is not counted.
func TestAnEventThatIsCountedTakesNoMoreMemory(t *testing.T) {
	var c calls
	histogram := func() { c.end(c.begin()) }
	counted := testing.AllocsPerRun(100, histogram)
	c.uncounted = true
	if uncounted := testing.AllocsPerRun(100, histogram); counted > uncounted {
		t.Errorf("a call of a handler takes %v allocations more when it is counted", counted-uncounted)
	}
	i, err := New(noSource, Options{Example: &corev1.ConfigMap{}})
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { _ = i.store.Bookmark("1") }); n > 0 {
		t.Errorf("a bookmark takes %v allocations", n)
	}
}

// TestTheFirstListOfADormantInformerBeginsWhenItIsDormantNoMore, not while there is nothing to list.
func TestTheFirstListOfADormantInformerBeginsWhenItIsDormantNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, implementation{new: newOwnInformer(false, asDecodedEvents), ours: true}, setting{}, true)
		i := r.informer.(*Informer)
		i.Sleep()
		r.start()
		r.elapse(time.Hour)
		r.Expect(i.Stats().Synced).To(BeZero())
		i.Wake()
		r.settle()
		s := i.Stats()
		r.Expect(s.Synced).NotTo(BeZero())
		r.Expect(s.Begun).To(BeTemporally("==", s.Synced), "in a bubble lists take no time")
	})
}
