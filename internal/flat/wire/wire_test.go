// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"slices"
	"testing"
)

// fields are those of a message with a number, a text, a list of texts and an inner message of one number.
var fields = []field{
	1: {known: true, wire: varint, slot: 0},
	2: {known: true, wire: length, slot: 1},
	3: {known: true, wire: length, slot: 2, repeated: true},
	4: {known: true, wire: length, inline: true},
}

// TestScan finds the fields of messages, and refuses those that an encoder of the API does not write.
func TestScan(t *testing.T) {
	text := func(b []byte, number uint64, s string) []byte {
		return appendField(b, number<<3|length, []byte(s))
	}
	inner := []byte{1<<3 | fixed32, 1, 2, 3, 4}
	for name, c := range map[string]struct {
		message []byte
		want    []Slot // nil if the message is refused
	}{
		"nothing":                    {nil, make([]Slot, 4)},
		"a number":                   {[]byte{1 << 3, 0x80, 1}, []Slot{{Start: 1, End: 3, N: 1}, {}, {}, {}}},
		"a text":                     {text(nil, 2, "abc"), []Slot{{}, {Start: 2, End: 5, N: 1}, {}, {}}},
		"two of a list":              {text(text(nil, 3, "a"), 3, ""), []Slot{{}, {}, {End: 5, N: 2}, {}}},
		"an inner message":           {appendField(nil, 4<<3|length, inner), []Slot{{}, {}, {}, {Start: 3, End: 7, N: 1}}},
		"an unknown field":           {text(nil, 9, "abc"), make([]Slot, 4)},
		"a field twice":              {text(text(nil, 2, "a"), 2, "b"), nil},
		"a list in two places":       {text(text(text(nil, 3, "a"), 2, "b"), 3, "c"), nil},
		"another wire type":          {[]byte{2 << 3, 1}, nil},
		"the number 0":               {[]byte{0, 1}, nil},
		"a group":                    {[]byte{9<<3 | 3}, nil},
		"a text without its end":     {[]byte{2<<3 | length, 5, 'a'}, nil},
		"a tag without its end":      {[]byte{0x80}, nil},
		"a number without its end":   {[]byte{1 << 3, 0x80}, nil},
		"a fixed number that is cut": {[]byte{4<<3 | length, 3, 1<<3 | fixed32, 1, 2}, nil},
	} {
		slots := make([]Slot, 4)
		m := &Message{inlines: [][]field{{1: {known: true, wire: fixed32, slot: 3}}}}
		if ok := m.scan(slots, fields, c.message, 0, len(c.message)); ok != (c.want != nil) || ok && !slices.Equal(slots, c.want) {
			t.Errorf("%s: %v, %v, want %v", name, ok, slots, c.want)
		}
	}
}

// TestNextAndPair read what Scan has found.
func TestNextAndPair(t *testing.T) {
	pair := appendField(appendField(nil, 1<<3|length, []byte("key")), 2<<3|length, []byte("value"))
	list := appendField(appendField(nil, 3<<3|length, pair), 3<<3|length, pair[:5])
	first, rest := next(length, list)
	if key, value, ok := pairIn(first); key != "key" || value != "value" || !ok {
		t.Errorf("%q, %q, %v", key, value, ok)
	}
	second, rest := next(length, rest)
	if _, _, ok := pairIn(second); ok || len(rest) > 0 {
		t.Errorf("a pair without a value was read: %q, %q", second, rest)
	}
}

// TestFieldNumber reads the tags of Go structs.
func TestFieldNumber(t *testing.T) {
	if n, err := fieldNumber("bytes,17,opt,name=spec"); n != 17 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	for _, tag := range []string{"", "bytes", "bytes,0", "bytes,256", "bytes,x,opt"} {
		if n, err := fieldNumber(tag); err == nil {
			t.Errorf("%q: %d", tag, n)
		}
	}
}
