// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"slices"
	"testing"

	"github.com/tarn-dev/tarn/internal/flat/wire"
)

// fields are those of a message with a number, a text, a list of texts and an inner message of one number.
var fields = []wire.Field{
	1: {Known: true, Wire: wire.Varint, Slot: 0},
	2: {Known: true, Wire: wire.Length, Slot: 1},
	3: {Known: true, Wire: wire.Length, Slot: 2, Repeated: true},
	4: {Known: true, Wire: wire.Length, Inline: &[]wire.Field{1: {Known: true, Wire: wire.Fixed32, Slot: 3}}},
}

// TestScan finds the fields of messages, and refuses those that an encoder of the API does not write.
func TestScan(t *testing.T) {
	text := func(b []byte, number uint64, s string) []byte {
		return wire.AppendField(b, number<<3|wire.Length, []byte(s))
	}
	inner := []byte{1<<3 | wire.Fixed32, 1, 2, 3, 4}
	for name, c := range map[string]struct {
		message []byte
		want    []wire.Slot // nil if the message is refused
	}{
		"nothing":                    {nil, make([]wire.Slot, 4)},
		"a number":                   {[]byte{1 << 3, 0x80, 1}, []wire.Slot{{Start: 1, End: 3, N: 1}, {}, {}, {}}},
		"a text":                     {text(nil, 2, "abc"), []wire.Slot{{}, {Start: 2, End: 5, N: 1}, {}, {}}},
		"two of a list":              {text(text(nil, 3, "a"), 3, ""), []wire.Slot{{}, {}, {End: 5, N: 2}, {}}},
		"an inner message":           {wire.AppendField(nil, 4<<3|wire.Length, inner), []wire.Slot{{}, {}, {}, {Start: 3, End: 7, N: 1}}},
		"an unknown field":           {text(nil, 9, "abc"), make([]wire.Slot, 4)},
		"a field twice":              {text(text(nil, 2, "a"), 2, "b"), nil},
		"a list in two places":       {text(text(text(nil, 3, "a"), 2, "b"), 3, "c"), nil},
		"another wire type":          {[]byte{2 << 3, 1}, nil},
		"the number 0":               {[]byte{0, 1}, nil},
		"a group":                    {[]byte{9<<3 | 3}, nil},
		"a text without its end":     {[]byte{2<<3 | wire.Length, 5, 'a'}, nil},
		"a tag without its end":      {[]byte{0x80}, nil},
		"a number without its end":   {[]byte{1 << 3, 0x80}, nil},
		"a fixed number that is cut": {[]byte{4<<3 | wire.Length, 3, 1<<3 | wire.Fixed32, 1, 2}, nil},
	} {
		slots := make([]wire.Slot, 4)
		if ok := wire.Scan(slots, fields, c.message); ok != (c.want != nil) || ok && !slices.Equal(slots, c.want) {
			t.Errorf("%s: %v, %v, want %v", name, ok, slots, c.want)
		}
	}
}

// TestNextAndPair read what Scan has found.
func TestNextAndPair(t *testing.T) {
	pair := wire.AppendField(wire.AppendField(nil, 1<<3|wire.Length, []byte("key")), 2<<3|wire.Length, []byte("value"))
	list := wire.AppendField(wire.AppendField(nil, 3<<3|wire.Length, pair), 3<<3|wire.Length, pair[:5])
	first, rest := wire.Next(wire.Length, list)
	if key, value, ok := wire.Pair(first); key != "key" || value != "value" || !ok {
		t.Errorf("%q, %q, %v", key, value, ok)
	}
	second, rest := wire.Next(wire.Length, rest)
	if _, _, ok := wire.Pair(second); ok || len(rest) > 0 {
		t.Errorf("a pair without a value was read: %q, %q", second, rest)
	}
}

// TestFieldNumber reads the tags of Go structs.
func TestFieldNumber(t *testing.T) {
	if n, err := wire.FieldNumber("bytes,17,opt,name=spec"); n != 17 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	for _, tag := range []string{"", "bytes", "bytes,0", "bytes,256", "bytes,x,opt"} {
		if n, err := wire.FieldNumber(tag); err == nil {
			t.Errorf("%q: %d", tag, n)
		}
	}
}
