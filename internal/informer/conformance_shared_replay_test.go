// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	toolscache "k8s.io/client-go/tools/cache"
)

// witness is a handler that remembers the objects that it is given.
type witness struct {
	mu    sync.Mutex // guards given
	given map[string][]any
}

func (h *witness) see(event string, objects ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.given == nil {
		h.given = map[string][]any{}
	}
	h.given[event+" "+describe(objects[0])] = objects
}

func (h *witness) OnAdd(obj any, _ bool)       { h.see("add", obj) }
func (h *witness) OnUpdate(oldObj, newObj any) { h.see("update", oldObj, newObj) }
func (h *witness) OnDelete(obj any) {
	if unknown, missed := obj.(toolscache.DeletedFinalStateUnknown); missed {
		obj = unknown.Obj
	}
	h.see("delete", obj)
}

// take returns the events since the last take, with their objects.
func (h *witness) take() map[string][]any {
	h.mu.Lock()
	defer h.mu.Unlock()
	given := h.given
	h.given = nil
	return given
}

// TestInformerHandlersShareTheirObjects: what is made for one handler serves all of them, in the
// initial state, in resyncs and after a new list.
func TestInformerHandlersShareTheirObjects(t *testing.T) {
	eachInformer(t, setting{resync: 10 * time.Second}, func(r *rig) {
		handlers := []*witness{{}, {}, {}}
		for _, h := range handlers {
			r.handle(h)
		}
		for i := range 50 {
			r.server.put(configMap(fmt.Sprintf("ns/%02d", i), "1"))
		}
		shared := func(events int, what string) {
			r.t.Helper()
			first := handlers[0].take()
			r.Expect(first).To(HaveLen(events), what)
			for _, h := range handlers[1:] {
				other := h.take()
				r.Expect(other).To(HaveLen(events), what)
				for event, objects := range first {
					r.Expect(slices.Equal(other[event], objects)).To(BeTrue(), "%s: %s", what, event)
				}
			}
		}
		r.start()
		shared(50, "the initial state")
		r.elapse(11 * time.Second)
		shared(50, "a resync")
		r.server.miss(func() {
			r.server.put(configMap("ns/00", "2"), configMap("ns/01", "2"), configMap("ns/new", "1"))
			r.server.remove("ns/02")
		})
		r.elapse(2 * time.Second) // before the next resync
		told := handlers[0].take()
		handlers[0].given = told
		r.Expect(told).To(HaveKey("delete ns/02=1"))
		r.Expect(told).To(HaveKey("update ns/00=1"))
		shared(len(told), "a new list")
	})
}

// TestHandlersThatReplayAStateHoldLittleOfIt: one handler is stuck at the first object, the others
// go on without it, and share their objects. Neither of them holds the whole state decoded.
func TestHandlersThatReplayAStateHoldLittleOfIt(t *testing.T) {
	const objects, size = 100, 100 << 10
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, implementation{new: newOwnInformer(false, asDecodedEvents), ours: true}, setting{}, true)
		r.start()
		for i := range objects {
			r.server.put(configMap(fmt.Sprintf("ns/%02d", i), strings.Repeat(fmt.Sprintf("%03d", i), size/3)))
			r.settle()
		}
		r.server.forget()
		before := heap()
		gate, slow, seen := r.gate(), 0, map[any]int{}
		var mu sync.Mutex // guards seen
		stuck := r.handle(toolscache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
			gate.pass()
			slow++
		}})
		for range 2 {
			r.handle(toolscache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
				mu.Lock()
				defer mu.Unlock()
				seen[resourceVersionOf(obj)]++
			}})
		}
		r.settle()
		r.elapse(time.Minute)
		r.Expect(seen).To(HaveLen(objects))
		for _, calls := range seen {
			r.Expect(calls).To(Equal(2))
		}
		r.Expect(heap()-before).To(BeNumerically("<", replayBytes+2<<20), "of %d bytes", objects*size)
		replay := r.informer.(*Informer).replay
		r.Expect(replay.bytes).To(And(BeNumerically(">", 0), BeNumerically("<=", replayBytes)))
		r.Expect(stuck.HasSynced()).To(BeFalse())

		gate.open()
		r.settle()
		r.Expect(slow).To(Equal(objects))
		r.Expect(stuck.HasSynced()).To(BeTrue())
		r.Expect(replay.found).To(BeEmpty(), "nothing is kept for handlers that do not replay")
		r.Expect(replay.bytes).To(BeZero())
	})
}

// TestASlowHandlerHoldsUpOthersOnceAndForAMoment: the handlers that replay a state with it wait for it, and
// then go on without it.
func TestASlowHandlerHoldsUpOthersOnceAndForAMoment(t *testing.T) {
	const objects, size = 100, 100 << 10
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, implementation{new: newOwnInformer(false, asDecodedEvents), ours: true}, setting{}, true)
		for i := range objects {
			r.server.put(configMap(fmt.Sprintf("ns/%02d", i), strings.Repeat(fmt.Sprintf("%03d", i), size/3)))
		}
		begin, last := time.Now(), time.Time{}
		slow := r.handle(toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) { time.Sleep(time.Second) }})
		fast := r.handle(toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) { last = time.Now() }})
		r.start()
		r.elapse(objects*time.Second - time.Millisecond)
		r.Expect(fast.HasSynced()).To(BeTrue())
		r.Expect(slow.HasSynced()).To(BeFalse())
		r.Expect(last.Sub(begin)).To(And(BeNumerically(">", 0), BeNumerically("<=", replayPatience*replayPause)))
		r.elapse(time.Second)
		r.Expect(slow.HasSynced()).To(BeTrue())
	})
}
