// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Maps are written with their keys in order, so that equal maps have equal bytes.

// The memory in bytes that one pair of a map takes, more or less.
const (
	stringPair   = 40
	quantityPair = 90
	contentPair  = 40
)

// pairSize returns the same for any other map.
func (t *plan) pairSize() int { return int(t.key.size+t.elem.size) + 8 }

// pair is one entry of a map with string keys; which value is set depends on the map.
type pair struct {
	key     string
	text    string
	content any
}

// pairStack holds the pairs of the maps that are being written. The innermost map is last.
type pairStack struct {
	all   []pair
	order []uint32          // a buffer of sorted
	value resource.Quantity // of a pair, to have an address
}

// reset drops everything, so that a pooled encoder keeps no object alive.
func (s *pairStack) reset() { s.pop(0) }

// pop removes the pairs from position at.
func (s *pairStack) pop(at int) {
	clear(s.all[at:])
	s.all = s.all[:at]
}

// sorted sorts the pairs from position at by key and returns them. If there are many, it sorts
// their numbers first and then moves each pair once, because a pair is large and full of pointers,
// and the garbage collector has work with each move.
func (s *pairStack) sorted(at int) []pair {
	pairs := s.all[at:]
	if len(pairs) <= 12 {
		insertionSort(pairs)
		return pairs
	}
	s.order = s.order[:0]
	for i := range pairs {
		s.order = append(s.order, uint32(i))
	}
	slices.SortFunc(s.order, func(a, b uint32) int { return strings.Compare(pairs[a].key, pairs[b].key) })
	permute(pairs, s.order)
	return pairs
}

// permute reorders pairs: pairs[i] becomes the former pairs[order[i]]. It overwrites order.
func permute(pairs []pair, order []uint32) {
	for start := range order {
		first, at := pairs[start], start
		for int(order[at]) != start {
			next := int(order[at])
			pairs[at] = pairs[next]
			order[at] = uint32(at) // this place is done
			at = next
		}
		pairs[at] = first
		order[at] = uint32(at)
	}
}

// insertionSort sorts pairs by key. For few pairs it is the fastest way.
func insertionSort(pairs []pair) {
	for i := 1; i < len(pairs); i++ {
		for j := i; j > 0 && pairs[j].key < pairs[j-1].key; j-- {
			pairs[j], pairs[j-1] = pairs[j-1], pairs[j]
		}
	}
}

// stringMap writes a map of strings that is not nil.
func (w *writer) stringMap(m map[string]string) {
	at := len(w.pairs.all)
	for k, v := range m {
		w.pairs.all = append(w.pairs.all, pair{key: k, text: v})
	}
	w.stringPairs(at)
}

// stringPairs writes the pairs from position at of the stack as a map of strings.
func (w *writer) stringPairs(at int) {
	start, before := len(w.buf), w.private
	pairs := w.pairs.sorted(at)
	w.uvarint(uint64(len(pairs)) << 1)
	w.needs.charged += len(pairs) * stringPair
	for i := range pairs {
		w.string(pairs[i].key)
		w.string(pairs[i].text)
	}
	w.pairs.pop(at)
	w.share(start, before)
}

// quantityMap writes a map of quantities that is not nil. Its key type may be a named string type,
// which has the same memory layout as string.
func (w *writer) quantityMap(t *plan, p unsafe.Pointer) {
	at := len(w.pairs.all)
	m := *(*map[string]resource.Quantity)(p)
	for k := range m {
		w.pairs.all = append(w.pairs.all, pair{key: k})
	}
	start, before := len(w.buf), w.private
	pairs := w.pairs.sorted(at)
	w.uvarint(uint64(len(pairs)) << 1)
	w.needs.charged += len(pairs) * quantityPair
	for i := range pairs {
		w.string(pairs[i].key)
		w.pairs.value = m[pairs[i].key]
		w.quantity(unsafe.Pointer(&w.pairs.value))
	}
	w.pairs.value = resource.Quantity{}
	w.pairs.pop(at)
	w.share(start, before)
}

// anyMap writes a map of any other type by reflection.
func (e *encoder) anyMap(t *plan, p unsafe.Pointer) {
	if !e.enter() {
		return
	}
	start, before := len(e.buf), e.private
	m := reflect.NewAt(t.typ, p).Elem()
	keys := m.MapKeys()
	slices.SortFunc(keys, compareKeys)
	e.uvarint(uint64(len(keys)) << 1)
	e.needs.charged += len(keys) * t.pairSize()
	key, value := reflect.New(t.key.typ), reflect.New(t.elem.typ)
	for _, k := range keys {
		key.Elem().Set(k)
		value.Elem().Set(m.MapIndex(k))
		e.body(t.key, key.UnsafePointer())
		e.element(t.elem, value.UnsafePointer())
	}
	e.share(start, before)
	e.depth--
}

// compareKeys compares map keys of the kinds that the compiler accepts.
func compareKeys(a, b reflect.Value) int {
	switch {
	case a.Kind() == reflect.String:
		return strings.Compare(a.String(), b.String())
	case a.Kind() == reflect.Bool:
		return boolRank(a) - boolRank(b)
	case a.CanInt():
		return cmp.Compare(a.Int(), b.Int())
	default:
		return cmp.Compare(a.Uint(), b.Uint())
	}
}

// boolRank orders false before true.
func boolRank(v reflect.Value) int {
	if v.Bool() {
		return 1
	}
	return 0
}
