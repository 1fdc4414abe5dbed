// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// unfitting returns a ConfigMap that does not fit the Go type.
func unfitting(name, value string) *unstructured.Unstructured {
	u := odd(name, value)
	u.Object["data"] = "no map but " + value
	return u
}

// told lists what a handler is told in words.
type told struct{ said []string }

func (h *told) OnAdd(obj any, _ bool) { h.said = append(h.said, "add "+valueOf(obj)) }
func (h *told) OnUpdate(before, obj any) {
	h.said = append(h.said, fmt.Sprintf("update %s to %s", valueOf(before), valueOf(obj)))
}
func (h *told) OnDelete(obj any) {
	if unknown, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		h.said = append(h.said, fmt.Sprintf("delete %s of %s", unknown.Key, valueOf(unknown.Obj)))
		return
	}
	h.said = append(h.said, "delete "+valueOf(obj))
}

func (h *told) clear() { h.said = nil }

// TestAHandlerIsToldOfWhatFits: as by an informer of client-go's, whose list cannot be decoded as long as one
// object does not fit, and which compares with what it had before when all fit again.
func TestAHandlerIsToldOfWhatFits(t *testing.T) {
	withViews(t, func(v *views) {
		h := &told{}
		_, err := v.typed.AddEventHandler(h)
		v.Expect(err).NotTo(HaveOccurred())
		says := func(text ...string) {
			synctest.Wait()
			v.ExpectWithOffset(1, h.said).To(HaveExactElements(text))
			h.clear()
		}
		v.server.put(odd("a", "1"))
		says("add 1")
		v.server.put(unfitting("a", "2"))
		v.server.put(unfitting("a", "3"))
		says()
		v.server.put(odd("a", "4"))
		says("update 1 to 4")

		v.server.put(unfitting("b", "1"))
		says()
		v.server.put(odd("b", "2"))
		says("add 2")
		v.server.put(unfitting("b", "3"))
		v.server.remove("ns/b")
		says("delete ns/b of 2")

		v.server.put(unfitting("c", "1"))
		v.server.remove("ns/c")
		v.server.put(odd("c", "2"))
		says("add 2")
		v.server.remove("ns/c")
		says("delete 2")
		for r := range v.typed.handlers {
			v.Expect(r.unfit).To(BeEmpty())
		}
	})
}

// TestRandomObjectsThatFitAndDoNot writes random versions while a handler is now and then behind the window, and compares
// what it was told with what fits.
func TestRandomObjectsThatFitAndDoNot(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 20 {
		withViews(t, func(v *views) {
			h := newHolder(v.WithT)
			_, err := v.typed.AddEventHandler(h)
			v.Expect(err).NotTo(HaveOccurred())
			fits, there := map[string]string{}, map[string]bool{} // what a handler knows: the last state that has fitted
			for n := range 200 + random.IntN(1500) {
				name, value := fmt.Sprint("object-", random.IntN(5)), fmt.Sprint(n)
				switch what := random.IntN(4); {
				case what == 0:
					v.server.put(unfitting(name, value))
					there[name] = true
				case what == 1 && there[name]:
					v.server.remove("ns/" + name)
					delete(fits, name)
					there[name] = false
				default:
					v.server.put(odd(name, value))
					fits[name], there[name] = value, true
				}
				if random.IntN(100) == 0 {
					synctest.Wait()
				}
				if random.IntN(300) == 0 {
					h.hold(random.IntN(2) == 0)
				}
			}
			h.hold(false)
			synctest.Wait()
			for name, value := range h.holds { // while it was behind, there may have been a state that fitted
				if fits[name] != value {
					_, _, err := v.typed.GetStore().GetByKey("ns/" + name)
					v.Expect(err).To(MatchError(ContainSubstring("does not fit")), "seed %d: %s is %s", seed, name, value)
				}
			}
			for name := range fits {
				obj, exists, err := v.typed.GetStore().GetByKey("ns/" + name)
				if err == nil && exists {
					v.Expect(h.holds).To(HaveKeyWithValue(name, valueOf(obj)), "seed %d", seed)
				}
			}
		})
	}
}

// holder holds what a handler was told, and fails at an event that does not follow from that.
type holder struct {
	*WithT
	holds map[string]string
	gate  atomic.Pointer[chan struct{}] // is open while the channel is closed
}

func newHolder(g *WithT) *holder {
	h := &holder{WithT: g, holds: map[string]string{}}
	open := make(chan struct{})
	close(open)
	h.gate.Store(&open)
	return h
}

// hold holds the handler up, or no longer. One goroutine calls it.
func (h *holder) hold(up bool) {
	gate, open := *h.gate.Load(), false
	select {
	case <-gate:
		open = true
	default:
	}
	switch {
	case up && open:
		shut := make(chan struct{})
		h.gate.Store(&shut)
	case !up && !open:
		close(gate)
	}
}

func (h *holder) wait() { <-*h.gate.Load() }

func (h *holder) OnAdd(obj any, _ bool) {
	h.wait()
	h.Expect(h.holds).NotTo(HaveKey(obj.(client.Object).GetName()))
	h.holds[obj.(client.Object).GetName()] = valueOf(obj)
}

func (h *holder) OnUpdate(before, obj any) {
	h.wait()
	h.Expect(h.holds).To(HaveKeyWithValue(obj.(client.Object).GetName(), valueOf(before)))
	h.holds[obj.(client.Object).GetName()] = valueOf(obj)
}

func (h *holder) OnDelete(obj any) {
	h.wait()
	if unknown, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
		h.Expect(h.holds).To(HaveKeyWithValue(obj.(client.Object).GetName(), valueOf(obj)))
		h.Expect(unknown.Key).To(Equal("ns/" + obj.(client.Object).GetName()))
	}
	delete(h.holds, obj.(client.Object).GetName())
}

// TestAnIndexIsAnErrorWhileAnObjectDoesNotFit: it may have any value.
func TestAnIndexIsAnErrorWhileAnObjectDoesNotFit(t *testing.T) {
	withViews(t, func(v *views) {
		v.server.put(odd("good", "1"), unfitting("bad", "1"))
		byValue := func(obj any) ([]string, error) { return []string{valueOf(obj)}, nil }
		v.Expect(v.typed.AddIndexers(toolscache.Indexers{"value": byValue})).To(Succeed())
		synctest.Wait()
		store := v.typed.GetIndexer()
		fails := MatchError(ContainSubstring("ns/bad does not fit *v1.ConfigMap"))
		for range 2 {
			_, err := store.ByIndex("value", "1")
			v.Expect(err).To(fails)
			_, err = store.IndexKeys("value", "1")
			v.Expect(err).To(fails)
			_, err = store.Index("value", configMap("ns/any", "1"))
			v.Expect(err).To(fails)
			_, err = store.ByIndex(toolscache.NamespaceIndex, "ns")
			v.Expect(err).To(fails)
			v.Expect(store.List()).To(HaveLen(1))

			v.server.put(odd("bad", "1"))
			synctest.Wait()
			v.Expect(store.ByIndex("value", "1")).To(HaveLen(2))
			v.Expect(store.IndexKeys("value", "1")).To(ConsistOf("ns/bad", "ns/good"))
			v.server.put(unfitting("bad", "2"))
			synctest.Wait()
		}
	})
}

// TestAViewThatEndsTakesItsIndexesAway, and its functions are called no more.
func TestAViewThatEndsTakesItsIndexesAway(t *testing.T) {
	withViews(t, func(v *views) {
		calls := 0
		count := func(obj any) ([]string, error) { calls++; return []string{valueOf(obj)}, nil }
		v.Expect(v.typed.AddIndexers(toolscache.Indexers{"value": count})).To(Succeed())
		v.Expect(v.content.AddIndexers(toolscache.Indexers{"name": func(obj any) ([]string, error) {
			return []string{obj.(client.Object).GetName()}, nil
		}})).To(Succeed())
		v.server.put(odd("a", "1"))
		synctest.Wait()
		v.Expect(calls).To(BeNumerically(">", 0))
		v.typed.Close()
		before := calls
		v.server.put(odd("a", "2"), odd("b", "1"))
		synctest.Wait()
		v.Expect(calls).To(Equal(before))
		_, err := v.typed.GetIndexer().ByIndex("value", "1")
		v.Expect(err).To(MatchError(ContainSubstring("does not exist")))
		v.Expect(v.typed.AddIndexers(toolscache.Indexers{"late": count})).To(MatchError(errInformerStopped))
		v.Expect(v.content.GetIndexer().ByIndex("name", "b")).To(HaveLen(1), "another view has its own")
		for name := range v.base.Engine().Snapshot().Indexes() {
			v.Expect(name).To(HavePrefix("content/"))
		}

		again, err := NewView(v.base, &corev1.ConfigMap{}, "again/")
		v.Expect(err).NotTo(HaveOccurred())
		v.Expect(again.AddIndexers(toolscache.Indexers{"value": func(obj any) ([]string, error) { return []string{"new " + valueOf(obj)}, nil }})).To(Succeed())
		v.Expect(again.GetIndexer().ListIndexFuncValues("value")).To(Equal([]string{"new 1", "new 2"}))
	})
}
