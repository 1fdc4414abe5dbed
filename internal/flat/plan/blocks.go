// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"reflect"
	"strconv"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/tarn-dev/tarn/internal/flat/form"
)

// Objects whose slabs have the same counts get their slabs in a few blocks, each of which is one allocation. A block needs a Go type,
// which is made for the counts, takes about 1 KiB and never goes away.
const (
	blockSize  = 4 << 10 // bytes: a reader that keeps one value of a block keeps all
	mostBlocks = 16      // of one object
	mostCounts = 128     // of one Root for which there are blocks, in the order in which they are decoded
)

// Blocks are the blocks for some counts. They never change.
type Blocks struct {
	words  []unsafe.Pointer // the types of the blocks, as type words
	places []place          // of the slabs, in the order of the counts
}

// place is where a slab stands.
type place struct {
	block  uint8
	offset uintptr
}

// blocksOf are the blocks of one Root by counts.
type blocksOf struct {
	plans []*Plan // of the slabs, by their numbers
	made  atomic.Pointer[map[string]*Blocks]
	mu    sync.Mutex // held while blocks are made
}

// Blocks returns the blocks for counts, which must be those of many objects, or nil if the slabs are to be allocated one by one.
// It is safe for concurrent use.
func (r *Root) Blocks(counts string) *Blocks {
	if made := r.blocks.made.Load(); made != nil {
		if b, found := (*made)[counts]; found || len(*made) == mostCounts {
			return b
		}
	}
	return r.blocks.add(counts)
}

func (of *blocksOf) add(counts string) *Blocks {
	of.mu.Lock()
	defer of.mu.Unlock()
	all := map[string]*Blocks{}
	if made := of.made.Load(); made != nil {
		if b, found := (*made)[counts]; found || len(*made) == mostCounts {
			return b
		}
		all = maps.Clone(*made)
	}
	counts = string(append([]byte(nil), counts...)) // not the memory of a dictionary
	all[counts] = of.make(counts)
	of.made.Store(&all)
	return all[counts]
}

// make makes the types of the blocks for counts, or returns nil if an allocation for each slab is as good, or counts are corrupt.
func (of *blocksOf) make(counts string) *Blocks {
	b, fields := &Blocks{}, []reflect.StructField(nil)
	finish := func() {
		t := reflect.StructOf(fields)
		for i := range fields {
			b.places = append(b.places, place{uint8(len(b.words)), t.Field(i).Offset})
		}
		b.words, fields = append(b.words, wordOf(t)), nil
	}
	size := uintptr(0)
	for i := 0; i+1 < len(counts) && i < 2*form.SlabKinds; i += 2 {
		number, n := int(counts[i]), int(counts[i+1])
		if number >= len(of.plans) || of.plans[number] == nil || n == 0 || n > form.SlabSize {
			return nil
		}
		slab := reflect.ArrayOf(n, of.plans[number].Type)
		if size+slab.Size() > blockSize && len(fields) > 0 {
			finish()
			size = 0
		}
		size += slab.Size()
		fields = append(fields, reflect.StructField{Name: "F" + strconv.Itoa(len(fields)), Type: slab})
	}
	if len(fields) > 0 {
		finish()
	}
	if len(b.words) > mostBlocks {
		return nil
	}
	return b
}

// Memory is the memory of one object in blocks.
type Memory struct {
	blocks *Blocks
	begun  [mostBlocks]unsafe.Pointer
}

// Use begins an object.
func (m *Memory) Use(b *Blocks) { m.blocks = b }

// Slab returns the memory of a slab, by its place among the counts. It returns nil if slabs are to be allocated one by one.
func (m *Memory) Slab(n int) unsafe.Pointer {
	if m.blocks == nil {
		return nil
	}
	at := m.blocks.places[n]
	if m.begun[at.block] == nil {
		m.begun[at.block] = newArray(m.blocks.words[at.block], 1)
	}
	return unsafe.Add(m.begun[at.block], at.offset)
}
