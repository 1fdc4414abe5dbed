// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

import (
	"encoding/binary"
	"reflect"

	"github.com/tarn-dev/tarn/internal/flat/decode"
	"github.com/tarn-dev/tarn/internal/flat/dictionary"
	"github.com/tarn-dev/tarn/internal/flat/form"
)

// FromBytes returns an Object of any bytes, as a damaged one would be.
func FromBytes(data []byte, d *dictionary.Dictionary, parts ...string) Object {
	return decode.NewObject(string(data), d, parts)
}

// Bytes returns the bytes of an Object.
func Bytes(o Object) []byte { return []byte(reflect.ValueOf(o).FieldByName("data").String()) }

// Parts returns the parts of a large Object.
func Parts(o Object) (parts []string) {
	if annex := reflect.ValueOf(o).FieldByName("annex"); !annex.IsNil() {
		for _, part := range annex.Elem().FieldByName("Parts").Seq2() {
			parts = append(parts, part.String())
		}
	}
	return parts
}

// WearEntries is the number of entries below which a dictionary is never stale.
const WearEntries = dictionary.Lasting

// Copies says of which sections of o an update may be a copy: the bytes of each in flat.Bytes(o).
func Copies(o Object) [][2]int { all, _ := table(o); return all }

// TableSize returns how many bytes of o its table of sections takes.
func TableSize(o Object) int { _, size := table(o); return size }

func table(o Object) (all [][2]int, size int) {
	data := Bytes(o)
	if data[0]&form.FlagSections == 0 {
		return nil, 0
	}
	at := form.HeaderSize
	number := func() int {
		v, size := binary.Uvarint(data[at:])
		at += size
		return int(v)
	}
	_, _ = number(), number() // the sizes
	if slabs := number(); slabs&1 == 0 {
		at += slabs >> 1 * 2
	}
	from, length := at, number()
	body := at + length
	for at < body {
		at += 8 // the hash
		begin, size := body+number(), number()
		needs := number()
		at += needs
		all = append(all, [2]int{begin, begin + size})
	}
	return all, body - from
}
