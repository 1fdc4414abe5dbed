// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package object_test

import (
	"flag"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/tarn-dev/tarn/internal/object"
)

// alone says that the process is one of those that TestBytesAreThoseOfTheHeap starts.
var alone = flag.Bool("alone", false, "measure the heap in this process")

// TestBytesAreThoseOfTheHeap compares what objects say that they take with what the heap grows by when they are kept. Each form is
// measured in a process of its own: what other tests have left goes when the collector finds the time, also between two measurements.
func TestBytesAreThoseOfTheHeap(t *testing.T) {
	for _, f := range forms() {
		t.Run(f.name, func(t *testing.T) {
			if *alone {
				checkBytes(t, f)
				return
			}
			g := NewWithT(t)
			program, err := os.Executable()
			g.Expect(err).NotTo(HaveOccurred())
			only := "-test.run=^TestBytesAreThoseOfTheHeap$/^" + strings.ReplaceAll(f.name, " ", "_") + "$"
			said, err := exec.CommandContext(t.Context(), program, only, "-test.v", "-alone").CombinedOutput()
			g.Expect(err).NotTo(HaveOccurred(), "%s", said)
			g.Expect(string(said)).To(ContainSubstring("the heap says"), "nothing was measured")
			t.Logf("%s", said)
		})
	}
}

func checkBytes(t *testing.T, f form) {
	// With one processor, what cleans up behind a collection runs while this goroutine sleeps.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	g, random := NewWithT(t), newRandom(t)
	const n = 5000
	decoded, kept := [n]any{}, [n]object.Object{}
	for i := range decoded {
		decoded[i] = f.random(random).DeepCopyObject()
	}
	held := func() int { // pools and interned strings take several collections to go
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
	before, said := held(), 0
	for i := range kept {
		kept[i] = f.Keep(decoded[i])
		said += kept[i].Bytes()
	}
	took := held() - before // what is flat comes on top, what is decoded is there already
	if !f.flat {
		clear(decoded[:])
		took = held()
		clear(kept[:])
		took -= held()
	}
	t.Logf("%d bytes each, the heap says %d", said/n, took/n)
	g.Expect(float64(said)).To(BeNumerically("~", took, 0.2*float64(took)))
	runtime.KeepAlive(&decoded)
	runtime.KeepAlive(&kept)
	runtime.KeepAlive(f)
}
