// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

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
