// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/tarn-dev/tarn/internal/variable"
)

// TestInformerAtRestKeepsNoEvents counts what an informer holds after more events than its
// window has, as soon as all handlers have seen them: with thousands of informers, one for
// each kind in each namespace, what each keeps for itself is what the cache takes.
func TestInformerAtRestKeepsNoEvents(t *testing.T) {
	variable.SkipUnderDetector(t, "it takes more of the heap")
	const informers, updates = 10, conformanceWindow + 100
	for _, handlers := range []int{0, 2} {
		t.Run(fmt.Sprintf("%d handlers", handlers), func(t *testing.T) {
			eachInformer(t, setting{}, func(r *rig) {
				rigs := []*rig{r}
				for len(rigs) < informers {
					rigs = append(rigs, newRig(r.t, r.impl, setting{}, r.server.streaming))
				}
				var calls atomic.Int64
				for _, r := range rigs {
					r.server.put(configMap("ns/a", "0"))
					for range handlers {
						r.handle(toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(any, any) { calls.Add(1) }})
					}
					r.start()
					r.server.put(configMap("ns/a", "1")) // plans are made once in a process
					r.settle()
					r.server.forget()
				}
				calls.Store(0)
				before := heap()
				for n, r := range rigs {
					for i := range updates {
						r.server.put(configMap("ns/a", fmt.Sprint(n, i)))
						r.settle() // no handler is behind
					}
					r.server.forget()
				}
				after := heap()
				r.Expect(calls.Load()).To(BeEquivalentTo(informers * updates * handlers))
				r.Expect((after-before)/informers).To(BeNumerically("<", (1+2*handlers)<<10), "bytes of each informer")
				runtime.KeepAlive(rigs)
			})
		})
	}
}

// TestAnIdleInformerHasFewGoroutines: in place of the goroutines of client-go's informer, which
// carry events from the Reflector to the handlers, ours has one for its watch.
func TestAnIdleInformerHasFewGoroutines(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	for _, handlers := range []int{0, 2} {
		t.Run(fmt.Sprintf("%d handlers", handlers), func(t *testing.T) {
			theirs := 0 // the first in the table is client-go's
			eachInformer(t, setting{}, func(r *rig) {
				before := runtime.NumGoroutine()
				for range handlers {
					r.handle(&recording{})
				}
				r.start()
				for i := range 100 {
					r.server.put(configMap("ns/a", fmt.Sprint(i)))
				}
				r.settle()
				if goroutines := runtime.NumGoroutine() - before; !r.impl.ours {
					theirs = goroutines
				} else {
					r.Expect(goroutines).To(BeNumerically("<=", theirs))
				}
			})
		})
	}
}

// heap returns the bytes of the heap that are in use.
func heap() int {
	var m runtime.MemStats
	for same, last := 0, uint64(0); same < 3; last = m.HeapAlloc {
		runtime.GC()
		runtime.ReadMemStats(&m)
		if same++; m.HeapAlloc+4096 < last {
			same = 0
		}
	}
	return int(m.HeapAlloc)
}
