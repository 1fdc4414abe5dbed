// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"math/bits"
	"reflect"
	"sync"
	"time"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
)

// measure computes how many bytes the values of a type take. Stores of old objects are bounded by
// these numbers, also for types that cannot tell the size of their protobuf form. A measure is made
// once for each type, because every event may be measured.
type measure struct {
	size    int       // of a value itself
	strings []uintptr // where its strings are
	parts   []part    // the other places that refer to more memory
}

// part is a place in a value that refers to more memory, which the function beyond adds up. What begins with a nil pointer refers to none.
type part struct {
	offset uintptr
	beyond func(at unsafe.Pointer) int
}

// beyond returns the bytes of memory to which the value at that address refers.
func (m *measure) beyond(at unsafe.Pointer) (sum int) {
	for _, offset := range m.strings {
		sum += Allocated(len(*(*string)(unsafe.Add(at, offset))))
	}
	for i := range m.parts {
		p := &m.parts[i]
		if to := unsafe.Add(at, p.offset); *(*unsafe.Pointer)(to) != nil {
			sum += p.beyond(to)
		}
	}
	return sum
}

// alone says whether values of the type refer to no more memory.
func (m *measure) alone() bool { return len(m.strings)+len(m.parts) == 0 }

// MemoryOf returns the bytes of memory of the value behind a pointer, with everything that it
// refers to. It counts memory twice if two references lead to it; in an object that was decoded
// there are no such references.
func MemoryOf(pointer any) int {
	v := reflect.ValueOf(pointer)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return beyondAny(pointer)
	}
	m := measureOf(v.Type().Elem())
	return Allocated(m.size) + m.beyond(v.UnsafePointer())
}

// measures holds the finished measure of each type.
var measures sync.Map

func measureOf(t reflect.Type) *measure {
	if m, ok := measures.Load(t); ok {
		return m.(*measure)
	}
	made := measurer{}
	m := made.of(t)
	for t, m := range made { // all of them are complete now
		measures.Store(t, m)
	}
	return m
}

// measurer makes the measure of a type and of the types that it refers to, which may include
// itself.
type measurer map[reflect.Type]*measure

func (made measurer) of(t reflect.Type) *measure {
	if m := made[t]; m != nil {
		return m
	}
	m := &measure{size: int(t.Size())}
	made[t] = m
	made.collect(m, t, 0)
	return m
}

var locationType = reflect.TypeFor[time.Location]()

// collect adds the parts of a value of type t at an offset.
func (made measurer) collect(m *measure, t reflect.Type, offset uintptr) {
	add := func(beyond func(unsafe.Pointer) int) { m.parts = append(m.parts, part{offset, beyond}) }
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			made.collect(m, t.Field(i).Type, offset+t.Field(i).Offset)
		}
	case reflect.Array:
		for i := range t.Len() {
			made.collect(m, t.Elem(), offset+uintptr(i)*t.Elem().Size())
		}
	case reflect.String:
		m.strings = append(m.strings, offset)
	case reflect.Pointer:
		if t.Elem() != locationType { // shared by all times of a zone
			add(made.pointer(t))
		}
	case reflect.Slice:
		add(made.slice(t))
	case reflect.Map:
		add(made.table(t))
	case reflect.Interface:
		add(func(at unsafe.Pointer) int { return beyondAny(reflect.NewAt(t, at).Elem().Interface()) })
	}
}

func (made measurer) pointer(t reflect.Type) func(unsafe.Pointer) int {
	to := made.of(t.Elem())
	return func(at unsafe.Pointer) int {
		return Allocated(to.size) + to.beyond(*(*unsafe.Pointer)(at))
	}
}

func (made measurer) slice(t reflect.Type) func(unsafe.Pointer) int {
	of := made.of(t.Elem())
	return func(at unsafe.Pointer) int {
		s := *(*[]byte)(at) // the element type does not matter, only the header is read
		sum := Allocated(cap(s) * of.size)
		if !of.alone() {
			for i := range len(s) {
				sum += of.beyond(unsafe.Add(unsafe.Pointer(unsafe.SliceData(s)), i*of.size))
			}
		}
		return sum
	}
}

func (made measurer) table(t reflect.Type) func(unsafe.Pointer) int {
	switch {
	case t.Key().Kind() == reflect.String && t.Elem().Kind() == reflect.String:
		return func(at unsafe.Pointer) int { return beyondStrings(*(*map[string]string)(at)) }
	case t.Key().Kind() == reflect.String && t.Elem() == reflect.TypeFor[any]():
		return func(at unsafe.Pointer) int { return beyondContent(*(*map[string]any)(at)) }
	case t.Key().Kind() == reflect.String && t.Elem() == reflect.TypeFor[resource.Quantity]():
		of := made.of(t.Elem())
		return func(at unsafe.Pointer) int { return beyondQuantities(*(*map[string]resource.Quantity)(at), of) }
	}
	key, value := made.of(t.Key()), made.of(t.Elem())
	iterators := sync.Pool{New: func() any { return &mapIterator{key: reflect.New(t.Key()), value: reflect.New(t.Elem())} }}
	return func(at unsafe.Pointer) int {
		table := reflect.NewAt(t, at).Elem()
		sum := tableBytes(table.Len(), key.size, value.size)
		if table.Len() > 0 {
			w := iterators.Get().(*mapIterator)
			sum += w.beyond(table, key, value)
			iterators.Put(w)
		}
		return sum
	}
}

// mapIterator iterates over a map. It is reused, because a new one takes three allocations.
type mapIterator struct {
	pairs      reflect.MapIter
	key, value reflect.Value // pointers to the current pair
}

// beyond returns the bytes of memory to which the keys and values of a map refer.
func (w *mapIterator) beyond(table reflect.Value, key, value *measure) (sum int) {
	for w.pairs.Reset(table); w.pairs.Next(); {
		w.key.Elem().SetIterKey(&w.pairs)
		w.value.Elem().SetIterValue(&w.pairs)
		sum += key.beyond(w.key.UnsafePointer()) + value.beyond(w.value.UnsafePointer())
	}
	w.pairs.Reset(reflect.Value{}) // it must not hold the map
	w.key.Elem().SetZero()
	w.value.Elem().SetZero()
	return sum
}

func beyondStrings(m map[string]string) int {
	sum := tableBytes(len(m), int(unsafe.Sizeof("")), int(unsafe.Sizeof("")))
	for key, value := range m {
		sum += Allocated(len(key)) + Allocated(len(value))
	}
	return sum
}

// quantities are values of maps while they are measured: to have an address, a new one would be allocated.
var quantities = sync.Pool{New: func() any { return new(resource.Quantity) }}

// beyondQuantities is for the resources of containers: a Pod has several such maps. Maps with another string type as their key have
// the same memory.
func beyondQuantities(m map[string]resource.Quantity, of *measure) int {
	sum := tableBytes(len(m), int(unsafe.Sizeof("")), of.size)
	one := quantities.Get().(*resource.Quantity)
	for key, value := range m {
		*one = value
		sum += Allocated(len(key)) + of.beyond(unsafe.Pointer(one))
	}
	*one = resource.Quantity{} // it must not hold what is measured
	quantities.Put(one)
	return sum
}

func beyondContent(m map[string]any) int {
	sum := tableBytes(len(m), int(unsafe.Sizeof("")), int(unsafe.Sizeof(any(nil))))
	for key, value := range m {
		sum += Allocated(len(key)) + beyondAny(value)
	}
	return sum
}

// beyondAny returns the bytes of a value in an interface. The types that a JSON decoder makes come
// first.
func beyondAny(value any) (sum int) {
	switch v := value.(type) {
	case nil, bool:
		return 0
	case int64, float64:
		return Allocated(int(unsafe.Sizeof(v)))
	case string:
		return Allocated(int(unsafe.Sizeof(v))) + Allocated(len(v))
	case map[string]any:
		return beyondContent(v)
	case []any:
		sum = Allocated(int(unsafe.Sizeof(v))) + Allocated(cap(v)*int(unsafe.Sizeof(any(nil))))
		for _, element := range v {
			sum += beyondAny(element)
		}
		return sum
	}
	v := reflect.ValueOf(value)
	box := reflect.New(v.Type())
	box.Elem().Set(v)
	m := measureOf(v.Type())
	if k := v.Kind(); k != reflect.Pointer && k != reflect.Map { // the interface holds these directly
		sum = Allocated(m.size)
	}
	return sum + m.beyond(box.UnsafePointer())
}

// Allocated returns about how many bytes the Go runtime allocates for a value of so many bytes.
func Allocated(bytes int) int {
	switch {
	case bytes == 0:
		return 0
	case bytes <= 8:
		return 8
	}
	return (bytes + 15) &^ 15
}

const (
	// tableGroup is the number of pairs for which a map makes room at once.
	tableGroup = 8
	// tableHeader is the number of bytes of a map without its pairs.
	tableHeader = 48
	// tableInline is the size in bytes of the largest key or value that stands in the table itself.
	tableInline = 128
)

// tableBytes returns the bytes of a map with n pairs, without the memory to which these refer. A
// map doubles its room when it is seven eighths full.
func tableBytes(n, key, value int) (sum int) {
	if n == 0 {
		return 0
	}
	for _, size := range []*int{&key, &value} {
		if *size > tableInline {
			sum += n * Allocated(*size)
			*size = int(unsafe.Sizeof(uintptr(0)))
		}
	}
	room := tableGroup
	if n > tableGroup {
		room = 1 << bits.Len(uint(n*8/7))
	}
	return sum + tableHeader + room*(key+value+1)
}
