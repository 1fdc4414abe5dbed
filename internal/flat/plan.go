// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

import (
	"reflect"
	"unsafe"
)

// kind says how a value is written and read.
type kind uint8

const (
	kindBool kind = iota
	kindInt8
	kindInt16
	kindInt32
	kindInt64
	kindUint8
	kindUint16
	kindUint32
	kindUint64
	kindFloat32
	kindFloat64
	kindString
	kindBytes        // a slice whose elements are one byte wide, without pointers
	kindPointer      // to elem
	kindSlice        // of elem
	kindArray        // of elem, count of them
	kindStruct       // fields
	kindStringMap    // map of a string kind to a string kind
	kindQuantityMap  // map of a string kind to resource.Quantity
	kindContentMap   // map[string]any: JSON-like content
	kindMap          // any other map, by reflection
	kindContent      // any: JSON-like content
	kindTime         // time.Time
	kindQuantity     // resource.Quantity
	kindRawExtension // runtime.RawExtension
	kindHandle       // unique.Handle[string]
	kindSection      // of a field alone, whose plan has kindStruct: see section.go
	kindUnknown      // not yet compiled
)

// plan says how values of one Go type are written and read. It never changes after it is compiled.
// What is small stands together: a kind has some hundred plans.
type plan struct {
	kind   kind
	align  uint8
	noscan bool  // the type holds no pointers, so that its values can be carved from one chunk
	shared bool  // values of this struct type may enter the dictionary as a whole
	slab   uint8 // the number of the type within its codec; 0 if its values are allocated singly
	size   uintptr
	count  int          // elements of an array
	typ    reflect.Type // the type itself
	elem   *plan        // of pointers, slices, arrays and maps
	key    *plan        // of maps
	fields *structPlan  // of structs
}

// allocate returns zeroed memory for n values. What reflect exports would make a Go type for each n,
// which stays, or a slice header for each call.
func (t *plan) allocate(n int) unsafe.Pointer { return newArray(wordOf(t.typ), n) }

// newArray allocates zeroed memory for n values of the type with that type word. The Go runtime keeps
// it for packages outside of reflect, go.dev/issue/67401.
//
//go:linkname newArray reflect.unsafe_NewArray
func newArray(word unsafe.Pointer, n int) unsafe.Pointer

// nillable says whether values of the type may be nil. Such a value is nil exactly if its first
// word is nil.
func (t *plan) nillable() bool {
	switch t.kind {
	case kindPointer, kindSlice, kindBytes, kindStringMap, kindQuantityMap, kindContentMap, kindMap, kindHandle:
		return true
	}
	return false
}

// structPlan lists the fields of a struct in groups of up to 64, with the fields of small structs
// inside it. A group starts with a bitmap of its non-zero fields.
type structPlan struct {
	groups []fieldGroup
}

// fieldGroup is a run of fields with one bitmap.
type fieldGroup struct {
	fields []field
	width  int    // bytes of the bitmap
	valid  uint64 // bits that may be set
	bytes  uint64 // bits of those bytes
}

// field is one field, with its offset from the start of the struct that is being written or read.
type field struct {
	offset uint32
	// probe is the offset of eight bytes that are zero exactly if the field is zero. It is valid if
	// wide is set. Most fields of most objects are zero, and with probe one look is enough to skip
	// them.
	probe uint32
	wide  bool
	kind  kind // of plan, here for locality; or kindSection
	// section is the number of a field of kindSection within its codec, from 1.
	section uint8
	plan    *plan
}

// newField returns the field of plan p at offset.
func newField(p *plan, offset uintptr) field {
	f := field{offset: uint32(offset), probe: uint32(offset), kind: p.kind, plan: p}
	switch p.kind {
	case kindString:
		f.probe += uint32(wordSize) // the length, behind the pointer
		f.wide = true
	case kindPointer, kindSlice, kindBytes, kindStringMap, kindQuantityMap, kindContentMap, kindMap, kindContent, kindHandle:
		f.wide = true // the first word is nil exactly when the value is
	case kindInt64, kindUint64, kindFloat64:
		f.wide = true // a float by its bits, so that a negative zero stays
	}
	f.wide = f.wide && unsafe.Sizeof(uintptr(0)) == 8
	return f
}

// groupFields cuts fields into groups.
func groupFields(fields []field) *structPlan {
	s := &structPlan{}
	for len(fields) > 0 {
		n := min(len(fields), 64)
		g := fieldGroup{fields: fields[:n:n], width: (n + 7) / 8, valid: ^uint64(0) >> (64 - n)}
		g.bytes = ^uint64(0) >> (64 - 8*g.width)
		s.groups = append(s.groups, g)
		fields = fields[n:]
	}
	return s
}

// sliceHeader is the memory of a slice of any element type.
type sliceHeader struct {
	data unsafe.Pointer
	len  int
	cap  int
}

// shift returns the field with its offsets moved by as many bytes.
func (f field) shift(by uintptr) field {
	f.offset += uint32(by)
	f.probe += uint32(by)
	return f
}

// interfaceHeader is the memory of an empty interface.
type interfaceHeader struct {
	typ  unsafe.Pointer
	data unsafe.Pointer
}

// wordOf returns the type word of interfaces that hold a value of type t.
func wordOf(t reflect.Type) unsafe.Pointer { return (*interfaceHeader)(unsafe.Pointer(&t)).data }

// typeWord returns the type word of an interface that holds v.
func typeWord(v any) unsafe.Pointer {
	return (*interfaceHeader)(unsafe.Pointer(&v)).typ
}

// nothing is the memory to which empty slices refer that are not nil.
var nothing struct{}
