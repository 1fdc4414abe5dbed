// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
)

// moment is a time after the start, and what a handler has been told since the
// moment before.
type moment struct {
	at   time.Duration
	told []string
}

func (m moment) expected() types.GomegaMatcher {
	if len(m.told) == 0 {
		return BeEmpty()
	}
	return Equal(m.told)
}

// follow lets the time pass from one moment to the next, and looks at the handler.
func (r *rig) follow(h *recording, moments ...moment) {
	r.t.Helper()
	begin := time.Now()
	h.take()
	for _, m := range moments {
		r.elapse(m.at - time.Since(begin))
		r.Expect(h.take()).To(m.expected(), "at %s", m.at)
	}
}

func TestInformerWithoutAPeriodNeverResyncs(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		silent, asking := &recording{}, &recording{}
		r.handle(silent)
		r.handleEvery(2*time.Second, asking)
		r.server.put(configMap("ns/a", "1"))
		r.start()
		asking.take()
		r.follow(silent, moment{at: time.Hour})
		r.Expect(asking.take()).To(BeEmpty())
	})
}

func TestInformerResyncsEveryPeriod(t *testing.T) {
	eachInformer(t, setting{resync: 10 * time.Second}, func(r *rig) {
		h := &recording{}
		r.handle(h)
		r.server.put(configMap("ns/a", "1"))
		r.start()
		r.follow(h,
			moment{at: 9 * time.Second}, moment{11 * time.Second, []string{"update ns/a=1>1"}},
			moment{at: 19 * time.Second}, moment{21 * time.Second, []string{"update ns/a=1>1"}},
		)
	})
}

func TestInformerResyncsWithTheObjectAsItIs(t *testing.T) {
	eachInformer(t, setting{resync: 10 * time.Second}, func(r *rig) {
		h := &recording{}
		r.handle(h)
		r.server.put(configMap("ns/a", "1"), configMap("ns/b", "1"))
		r.start()
		r.server.put(configMap("ns/a", "2"))
		r.server.remove("ns/b")
		r.settle()
		r.follow(h, moment{11 * time.Second, []string{"update ns/a=2>2"}})
	})
}

func TestInformerResyncsOnlyHandlersThatAskForIt(t *testing.T) {
	eachInformer(t, setting{resync: 10 * time.Second}, func(r *rig) {
		never, often := &recording{}, &recording{}
		r.handleEvery(0, never)
		r.handleEvery(2*time.Second, often)
		r.server.put(configMap("ns/a", "1"))
		r.start()
		never.take()
		r.follow(often,
			moment{at: time.Second}, moment{3 * time.Second, []string{"update ns/a=1>1"}}, moment{5 * time.Second, []string{"update ns/a=1>1"}},
		)
		r.elapse(time.Minute)
		r.Expect(never.take()).To(BeEmpty())
	})
}

// The informer looks every period of its own which handlers are due.
func TestInformerRoundsPeriodsUpToAMultipleOfItsOwn(t *testing.T) {
	eachInformer(t, setting{resync: 10 * time.Second}, func(r *rig) {
		h := &recording{}
		r.handleEvery(2*time.Second, &recording{}) // makes it the informer's period
		r.handleEvery(5*time.Second, h)
		r.server.put(configMap("ns/a", "1"))
		r.start()
		once := []string{"update ns/a=1>1"}
		r.follow(h,
			moment{at: 5900 * time.Millisecond}, moment{6100 * time.Millisecond, once},
			moment{at: 11900 * time.Millisecond}, moment{12100 * time.Millisecond, once},
		)
	})
}

func TestInformerResyncsAtMostOnceASecond(t *testing.T) {
	eachInformer(t, setting{resync: 10 * time.Second}, func(r *rig) {
		h := &recording{}
		r.handleEvery(time.Millisecond, h)
		r.server.put(configMap("ns/a", "1"))
		r.start()
		r.follow(h,
			moment{at: 900 * time.Millisecond}, moment{1100 * time.Millisecond, []string{"update ns/a=1>1"}},
			moment{at: 1900 * time.Millisecond}, moment{2100 * time.Millisecond, []string{"update ns/a=1>1"}},
		)
	})
}

func TestInformerRaisesThePeriodOfALateHandlerToItsOwn(t *testing.T) {
	eachInformer(t, setting{resync: 10 * time.Second}, func(r *rig) {
		h := &recording{}
		r.server.put(configMap("ns/a", "1"))
		r.start()
		r.elapse(3 * time.Second)
		r.handleEvery(2*time.Second, h)
		r.settle()
		// Due 13 s after the start, when the informer does not look; it does at 20 s.
		r.follow(h, moment{at: 16900 * time.Millisecond}, moment{17100 * time.Millisecond, []string{"update ns/a=1>1"}})
	})
}

func TestInformerResyncsALateHandlerByDefault(t *testing.T) {
	eachInformer(t, setting{resync: 10 * time.Second}, func(r *rig) {
		h := &recording{}
		r.server.put(configMap("ns/a", "1"))
		r.start()
		_, err := r.informer.AddEventHandlerWithResyncPeriod(h, 20*time.Second)
		r.Expect(err).NotTo(HaveOccurred())
		byDefault := &recording{}
		_, err = r.informer.AddEventHandler(byDefault)
		r.Expect(err).NotTo(HaveOccurred())
		r.settle()
		byDefault.take()
		r.follow(h, moment{at: 11 * time.Second}, moment{21 * time.Second, []string{"update ns/a=1>1"}})
		r.Expect(byDefault.take()).To(Equal([]string{"update ns/a=1>1", "update ns/a=1>1"}))
	})
}

// TestInformerResyncsAHandlerThatIsAlwaysBehind: by the time that it returns from an event,
// the next one is there.
func TestInformerResyncsAHandlerThatIsAlwaysBehind(t *testing.T) {
	eachInformer(t, setting{resync: 10 * time.Second}, func(r *rig) {
		h := &recording{}
		version := 1
		h.before = func(event string) {
			before, after, _ := strings.Cut(event, ">")
			if resync := strings.HasSuffix(before, "="+after); strings.Contains(event, "ns/busy") && !resync {
				version++
				r.server.put(configMap("ns/busy", strconv.Itoa(version)))
				time.Sleep(700 * time.Millisecond)
			}
		}
		r.handle(h)
		r.server.put(configMap("ns/busy", "1"), configMap("ns/idle", "1"))
		r.start()
		r.elapse(time.Minute)
		told := h.take()
		resyncs := slices.DeleteFunc(slices.Clone(told), func(event string) bool { return event != "update ns/idle=1>1" })
		r.Expect(len(resyncs)).To(BeNumerically("~", 5, 1), "%q", told)
	})
}

func TestInformerResyncsAHandlerThatTakesItsTimeEveryPeriod(t *testing.T) {
	eachInformer(t, setting{resync: 10 * time.Second}, func(r *rig) {
		h := &recording{before: func(string) { time.Sleep(time.Millisecond) }}
		r.handle(h)
		r.server.put(configMap("ns/a", "1"))
		r.start()
		r.elapse(time.Second)
		r.follow(h,
			moment{at: 8 * time.Second}, moment{10 * time.Second, []string{"update ns/a=1>1"}},
			moment{at: 18 * time.Second}, moment{20 * time.Second, []string{"update ns/a=1>1"}},
			moment{at: 28 * time.Second}, moment{30 * time.Second, []string{"update ns/a=1>1"}})
	})
}

func TestInformerDoesNotResyncAHandlerThatWasRemovedMeanwhile(t *testing.T) {
	eachInformer(t, setting{resync: 10 * time.Second}, func(r *rig) {
		gate := r.gate()
		h := &recording{before: func(string) { gate.pass() }}
		registration := r.handle(h)
		r.server.put(configMap("ns/a", "1"))
		r.start()
		r.Expect(r.informer.RemoveEventHandler(registration)).To(Succeed())
		r.server.put(configMap("ns/a", "2")) // nobody is left to read it
		r.elapse(11 * time.Second)
		gate.open()
		r.settle()
		r.Expect(h.take()).To(Equal([]string{"initial ns/a=1"}))
	})
}
