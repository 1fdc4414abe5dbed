// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"unsafe"

	"github.com/tarn-dev/tarn/internal/flat/wire"
)

// pairsOf puts the n pairs of a map, which stand with their tags in b, on the stack, and returns
// them in order. The values are the text of the pairs. It returns false if a pair is unusual, or if
// two have the same key.
func (e *MessageEncoder) pairsOf(b []byte, n int) (at int, ok bool) {
	at = len(e.pairs.all)
	for range n {
		var key, value string
		if key, value, b, ok = wire.NextPair(b); !ok {
			return at, false
		}
		e.pairs.all = append(e.pairs.all, pair{key: key, text: value})
	}
	pairs := e.pairs.sorted(at)
	for i := 1; i < len(pairs); i++ {
		if pairs[i].key == pairs[i-1].key {
			return at, false
		}
	}
	return at, true
}

// bytesOf returns the bytes of a string, which the caller does not change.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// stringMap writes a map of strings.
func (e *MessageEncoder) stringMap(b []byte, n int) {
	if at, ok := e.pairsOf(b, n); ok {
		e.stringPairs(at)
	} else {
		e.unusual()
		e.pairs.pop(at)
	}
}

// mapping writes a map whose pairs take so many bytes of memory, each with the function write.
func (e *MessageEncoder) mapping(b []byte, n, pairSize int, write func(pair)) {
	at, ok := e.pairsOf(b, n)
	defer e.pairs.pop(at)
	if !ok {
		e.unusual()
		return
	}
	start, before := len(e.buf), e.private
	e.uvarint(uint64(n) << 1)
	e.needs.charged += n * pairSize
	for i := range n {
		write(e.pairs.all[at+i])
	}
	e.share(start, before)
}
