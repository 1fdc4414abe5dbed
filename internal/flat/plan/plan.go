// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"reflect"
	"unsafe"
)

// Kind says how a value is written and read.
type Kind uint8

const (
	KindBool Kind = iota
	KindInt8
	KindInt16
	KindInt32
	KindInt64
	KindUint8
	KindUint16
	KindUint32
	KindUint64
	KindFloat32
	KindFloat64
	KindString
	KindBytes        // a slice whose elements are one byte wide, without pointers
	KindPointer      // to elem
	KindSlice        // of elem
	KindArray        // of elem, count of them
	KindStruct       // fields
	KindStringMap    // map of a string kind to a string kind
	KindQuantityMap  // map of a string kind to resource.Quantity
	KindContentMap   // map[string]any: JSON-like content
	KindMap          // any other map, by reflection
	KindContent      // any: JSON-like content
	KindTime         // time.Time
	KindQuantity     // resource.Quantity
	KindRawExtension // runtime.RawExtension
	KindHandle       // unique.Handle[string]
	KindSection      // of a field alone, whose plan has KindStruct: an update may copy it, see package encode
	kindUnknown      // not yet compiled
)

// Plan says how values of one Go type are written and read. It never changes after it is compiled.
// What is small stands together: a kind has some hundred plans.
type Plan struct {
	Kind   Kind
	Align  uint8
	Noscan bool  // the type holds no pointers, so that its values can be carved from one chunk
	Shared bool  // values of this struct type may enter the dictionary as a whole
	Slab   uint8 // the number of the type within its Root; 0 if its values are allocated singly
	Size   uintptr
	Count  int          // elements of an array
	Type   reflect.Type // the type itself
	Elem   *Plan        // of pointers, slices, arrays and maps
	Key    *Plan        // of maps
	Fields *Struct      // of structs
}

// Allocate returns zeroed memory for n values. What reflect exports would make a Go type for each n,
// which stays, or a slice header for each call.
func (t *Plan) Allocate(n int) unsafe.Pointer { return newArray(wordOf(t.Type), n) }

// Share makes the struct at p a shallow copy of the one at q. Its slices have no room to grow: an append to one of
// the two must not write into the other.
func (t *Plan) Share(p, q unsafe.Pointer) {
	reflect.NewAt(t.Type, p).Elem().Set(reflect.NewAt(t.Type, q).Elem())
	t.Fields.clip(p)
}

// clip takes the room to grow from the slices of the struct at p.
func (s *Struct) clip(p unsafe.Pointer) {
	for i := range s.Groups {
		fields := s.Groups[i].Fields
		for n := range fields {
			at := unsafe.Add(p, fields[n].Offset)
			switch fields[n].Kind {
			case KindSlice, KindBytes:
				slice := (*SliceHeader)(at)
				slice.Cap = slice.Len
			case KindStruct:
				fields[n].Plan.Fields.clip(at)
			}
		}
	}
}

// Nillable says whether values of the type may be nil. Such a value is nil exactly if its first
// word is nil.
func (t *Plan) Nillable() bool {
	switch t.Kind {
	case KindPointer, KindSlice, KindBytes, KindStringMap, KindQuantityMap, KindContentMap, KindMap, KindHandle:
		return true
	}
	return false
}

// PairSize returns about how many bytes of memory one pair of a map takes.
func (t *Plan) PairSize() int { return int(t.Key.Size+t.Elem.Size) + 8 }

// Struct lists the fields of a struct in groups of up to 64, with the fields of small structs
// inside it. A group starts with a bitmap of its non-zero fields.
type Struct struct {
	Groups []Group
}

// Len returns the number of fields.
func (s *Struct) Len() (n int) {
	for i := range s.Groups {
		n += len(s.Groups[i].Fields)
	}
	return n
}

// Group is a run of fields with one bitmap.
type Group struct {
	Fields []Field
	Width  int    // bytes of the bitmap
	Valid  uint64 // bits that may be set
	Bytes  uint64 // bits of those bytes
}

// Field is one field, with its offset from the start of the struct that is being written or read.
type Field struct {
	Offset uint32
	// Probe is the distance from Offset to eight bytes that are zero exactly if the field is zero. It is valid if
	// Wide is set. Most fields of most objects are zero, and with Probe one look is enough to skip
	// them.
	Probe uint8
	Wide  bool
	Kind  Kind // of plan, here for locality; or KindSection
	// Section is the number of a field of KindSection within its Root, from 1.
	Section uint8
	Plan    *Plan
}

// newField returns the field of plan p at offset.
func newField(p *Plan, offset uintptr) Field {
	f := Field{Offset: uint32(offset), Kind: p.Kind, Plan: p}
	switch p.Kind {
	case KindString:
		f.Probe = uint8(wordSize) // the length, behind the pointer
		f.Wide = true
	case KindPointer, KindSlice, KindBytes, KindStringMap, KindQuantityMap, KindContentMap, KindMap, KindContent, KindHandle:
		f.Wide = true // the first word is nil exactly when the value is
	case KindInt64, KindUint64, KindFloat64:
		f.Wide = true // a float by its bits, so that a negative zero stays
	}
	f.Wide = f.Wide && unsafe.Sizeof(uintptr(0)) == 8
	return f
}

// groupFields cuts fields into groups.
func groupFields(fields []Field) *Struct {
	s := &Struct{}
	for len(fields) > 0 {
		n := min(len(fields), 64)
		g := Group{Fields: fields[:n:n], Width: (n + 7) / 8, Valid: ^uint64(0) >> (64 - n)}
		g.Bytes = ^uint64(0) >> (64 - 8*g.Width)
		s.Groups = append(s.Groups, g)
		fields = fields[n:]
	}
	return s
}

// shift returns the field with its offset moved by as many bytes.
func (f Field) shift(by uintptr) Field {
	f.Offset += uint32(by)
	return f
}

// section makes sections of those fields that are structs.
func (s *Struct) section() {
	number := uint8(0)
	for _, g := range s.Groups {
		for i := range g.Fields {
			if f := &g.Fields[i]; f.Kind == KindStruct && number < 255 {
				number++
				f.Kind, f.Section = KindSection, number
			}
		}
	}
}
