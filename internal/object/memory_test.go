// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package object_test

import (
	"math"
	"runtime"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/tarn-dev/tarn/internal/object"
)

// TestBytesAreThoseOfTheHeap compares what objects say that they take with what the heap
// grows by when they are kept.
func TestBytesAreThoseOfTheHeap(t *testing.T) {
	// With one processor, what cleans up behind a collection runs while this goroutine sleeps.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, f := range forms() {
		t.Run(f.name, func(t *testing.T) {
			g, random := NewWithT(t), newRandom(t)
			const n = 5000
			decoded, kept := [n]any{}, [n]object.Object{}
			for i := range decoded {
				decoded[i] = f.random(random).DeepCopyObject()
			}
			// Remains of the earlier form, such as interned strings and pooled encoders, take several collections to go, and
			// goroutines of the runtime that a busy machine may keep from running between two of them.
			held := func() int {
				var m runtime.MemStats
				least := ^uint64(0)
				for rounds := 0; rounds < 3; rounds++ {
					for range 2 {
						runtime.GC()
						time.Sleep(5 * time.Millisecond)
					}
					if runtime.ReadMemStats(&m); m.HeapAlloc < least {
						least, rounds = m.HeapAlloc, 0
					}
				}
				return int(least)
			}
			said, took := 0, 0
			fits := func() bool { return math.Abs(float64(said)/float64(took)-1) <= 0.4 }
			for range 3 { // remains that go between two measurements make the second too small, and are gone the next time
				first := held()
				said = 0
				for i := range kept {
					kept[i] = f.Keep(decoded[i])
					said += kept[i].Bytes()
				}
				took = held() - first // what is flat comes on top, what is decoded is there already
				if !f.flat || fits() {
					break
				}
				clear(kept[:])
			}
			if !f.flat {
				clear(decoded[:])
				took = held()
				clear(kept[:])
				took -= held()
			}
			t.Logf("%d bytes each, the heap says %d", said/n, took/n)
			g.Expect(fits()).To(BeTrue(), "%d bytes each, the heap says %d", said/n, took/n)
			runtime.KeepAlive(&decoded)
			runtime.KeepAlive(&kept)
			runtime.KeepAlive(f)
		})
	}
}
