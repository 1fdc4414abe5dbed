// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cover selects namespaces by ranges of their hashes, as the shard selectors of the API server do (KEP-5866).
package cover

import (
	"fmt"
	"hash/fnv"
	"iter"
	"math"
	"slices"
	"strings"
)

// Everything is the shard selector of all namespaces, and of what has none.
const Everything = "shardRange(object.metadata.namespace,'0x0000000000000000','0x10000000000000000')"

// Cover is a set of namespaces: those whose hashes are in its ranges. The ranges are in order. A nil Cover has all namespaces. A Cover never
// changes.
type Cover []hashRange

// hashRange has the hashes from first to last.
type hashRange struct{ first, last uint64 }

// Of returns a cover of some namespaces with at most so many ranges, which has few others. It is not nil. A URL has a hundred bytes for each
// range. The hashes of names that differ in their last characters are near each other.
func Of(namespaces iter.Seq[string], most int) Cover {
	var hashes []uint64
	for namespace := range namespaces {
		hashes = append(hashes, hashOf(namespace))
	}
	slices.Sort(hashes)
	c := make(Cover, len(hashes))
	for i, h := range hashes {
		c[i] = hashRange{h, h}
	}
	return c.within(most)
}

// within returns the cover with at most so many ranges: those with the least between them become one. It uses the memory of c.
func (c Cover) within(most int) Cover {
	if len(c) <= most {
		return c
	}
	gaps := make([]uint64, 0, len(c)-1)
	for i, r := range c[1:] {
		gaps = append(gaps, r.first-c[i].last)
	}
	slices.Sort(gaps)
	closed := gaps[len(c)-most-1]
	wider := c[:1]
	for _, r := range c[1:] {
		if last := &wider[len(wider)-1]; r.first-last.last <= closed {
			last.last = r.last
		} else {
			wider = append(wider, r)
		}
	}
	return wider
}

// Has reports whether a namespace is in the cover.
func (c Cover) Has(namespace string) bool {
	_, found := slices.BinarySearchFunc(c, hashOf(namespace), func(r hashRange, h uint64) int {
		switch {
		case r.last < h:
			return -1
		case r.first > h:
			return 1
		}
		return 0
	})
	return found || c == nil
}

// Share returns the part of all hashes that is in the cover, from 0 to 1: about that part of other namespaces is in it.
func (c Cover) Share() (share float64) {
	if c == nil {
		return 1
	}
	for _, r := range c {
		share += float64(r.last-r.first) / math.MaxUint64
	}
	return share
}

// Selector returns the shard selector of a cover that has a range, or is nil. It is empty for all namespaces.
func (c Cover) Selector() string {
	ranges := make([]string, len(c))
	for i, r := range c {
		end := fmt.Sprintf("%016x", r.last+1)
		if r.last == math.MaxUint64 {
			end = "10000000000000000"
		}
		ranges[i] = fmt.Sprintf("shardRange(object.metadata.namespace,'0x%016x','0x%s')", r.first, end)
	}
	return strings.Join(ranges, "||")
}

// hashOf is the hash of shard selectors.
func hashOf(namespace string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(namespace))
	return h.Sum64()
}
