// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"sync"
	"testing"
	"unsafe"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarn-dev/tarn/internal/flat/form"
)

func podRoot(t *testing.T) *Root {
	t.Helper()
	r, err := compile(reflect.TypeFor[corev1.Pod](), &goLayout)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// randomCounts returns counts of a number of types of a root.
func (r *Root) randomCounts(random *rand.Rand, kinds int) (counts string) {
	for _, number := range random.Perm(len(r.blocks.plans) - 1)[:kinds] {
		counts += string([]byte{byte(number + 1), byte(1 + random.IntN(form.SlabSize))})
	}
	return counts
}

// TestSlabsStandInBlocks: each slab is in one block, apart from all others, and a block that is larger than it should be has one slab.
func TestSlabsStandInBlocks(t *testing.T) {
	r, seed := podRoot(t), rand.Uint64()
	t.Logf("seed %d", seed)
	random, placed := rand.New(rand.NewPCG(seed, 1)), 0
	for range mostCounts {
		counts := r.randomCounts(random, 1+random.IntN(form.SlabKinds))
		b := r.Blocks(counts)
		if b == nil {
			continue
		}
		placed++
		if b != r.Blocks(string([]byte(counts))) {
			t.Fatal("blocks were made again")
		}
		var m Memory
		m.Use(b)
		end, slabs := map[uint8]uintptr{}, map[uint8]int{}
		for i, at := range b.places {
			of := r.blocks.plans[counts[2*i]]
			size := of.Size * uintptr(counts[2*i+1])
			if at.offset < end[at.block] || at.offset%uintptr(of.Align) != 0 {
				t.Fatalf("slab %d of %v lies at %d, the one before ends at %d", i, of.Type, at.offset, end[at.block])
			}
			end[at.block], slabs[at.block] = at.offset+size, slabs[at.block]+1
			if begun := m.Slab(i); begun == nil || begun != unsafe.Add(m.begun[at.block], at.offset) {
				t.Fatalf("slab %d is at %p", i, begun)
			}
		}
		for block, size := range end {
			if size > blockSize && slabs[block] > 1 {
				t.Errorf("a block of %d slabs has %d bytes", slabs[block], size)
			}
		}
	}
	if placed < mostCounts/4 {
		t.Errorf("%d of %d counts have blocks", placed, mostCounts)
	}
}

// TestBlocksAreBounded: by the number of counts, and in bytes.
func TestBlocksAreBounded(t *testing.T) {
	r, random := podRoot(t), rand.New(rand.NewPCG(1, 2))
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	var all sync.WaitGroup
	for range 4 {
		counts := make([]string, 100)
		for i := range counts {
			counts[i] = r.randomCounts(random, 20)
		}
		all.Go(func() {
			for _, c := range counts {
				r.Blocks(c)
			}
		})
	}
	all.Wait()
	took := heap() - before
	t.Logf("%d bytes for %d counts", took, len(*r.blocks.made.Load()))
	if n := len(*r.blocks.made.Load()); n != mostCounts {
		t.Errorf("there are blocks for %d counts, want %d", n, mostCounts)
	}
	if took > 4<<20 {
		t.Errorf("they take %d bytes", took)
	}
	if b := r.Blocks("\x01\x01"); b != nil {
		t.Error("there are blocks for more counts")
	}
}

// TestCorruptCountsHaveNoBlocks, which an entry of a dictionary may have by chance.
func TestCorruptCountsHaveNoBlocks(t *testing.T) {
	r := podRoot(t)
	for _, counts := range []string{"\x00\x01", "\xff\x01", "\x01\x00", fmt.Sprintf("\x01%c", form.SlabSize+1)} {
		if r.Blocks(counts) != nil {
			t.Errorf("there are blocks for %q", counts)
		}
	}
}
