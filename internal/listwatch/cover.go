// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"iter"
	"slices"
	"strings"
)

const (
	// maxRanges bounds the ranges of a cover: the URL of a request has about a hundred bytes for each, and proxies take 16 KiB.
	maxRanges = 128
	// allHashes is the shard selector of all namespaces.
	allHashes = "shardRange(object.metadata.namespace,'0x0000000000000000','0x10000000000000000')"
)

// cover says of which namespaces a request is: of those whose hashes are in its ranges, which are in order and apart. A nil cover is of
// all. It is what the shard selector of KEP-5866 says.
type cover []hashRange

// hashRange has the hashes from first to last.
type hashRange struct{ first, last uint64 }

// coverOf returns a cover of some namespaces, which has few others. It is not nil.
func coverOf(namespaces iter.Seq[string]) cover {
	c := cover{}
	for namespace := range namespaces {
		h := hashOf(namespace)
		c = append(c, hashRange{h, h})
	}
	slices.SortFunc(c, func(a, b hashRange) int { return cmp.Compare(a.first, b.first) })
	return c.within(maxRanges)
}

// within returns the cover with at most so many ranges: those with the least between them become one.
func (c cover) within(most int) cover {
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

// has reports whether a namespace is among those of the cover.
func (c cover) has(namespace string) bool {
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

// selector returns the shard selector of requests, which is empty for all.
func (c cover) selector() string {
	ranges := make([]string, len(c))
	for i, r := range c {
		end := fmt.Sprintf("%016x", r.last+1)
		if r.last+1 == 0 {
			end = "10000000000000000"
		}
		ranges[i] = fmt.Sprintf("shardRange(object.metadata.namespace,'0x%016x','0x%s')", r.first, end)
	}
	return strings.Join(ranges, "||")
}

// coversLocked reports whether the watch brings a namespace, or has it do so soon.
func (r *wideRun) coversLocked(namespace string) bool {
	if r.cover.has(namespace) {
		return true
	}
	select {
	case r.widen <- struct{}{}:
	default:
	}
	return false
}

// hashOf is the hash of shard selectors.
func hashOf(namespace string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(namespace))
	return h.Sum64()
}
