// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"math/bits"
	"reflect"
	"sync"
	"time"
	"unsafe"
)

// measure says how many bytes the values of a type take. What keeps old objects is bounded by
// what these really hold, also those of types that cannot tell the size of their protobuf form.
// A plan is made once for each type, because every event may be measured.
type measure struct {
	size  int    // of a value itself
	parts []part // where it refers to memory of its own
}

// part is a place in a value, and what adds up the memory that it refers to; nil for a string.
type part struct {
	offset uintptr
	beyond func(at unsafe.Pointer) int
}

// beyond returns the bytes that a value refers to.
func (m *measure) beyond(at unsafe.Pointer) (sum int) {
	for i := range m.parts {
		p := &m.parts[i]
		if p.beyond == nil {
			sum += Allocated(len(*(*string)(unsafe.Add(at, p.offset))))
		} else {
			sum += p.beyond(unsafe.Add(at, p.offset))
		}
	}
	return sum
}

// MemoryOf returns the bytes that a value takes which is a pointer, with all that it refers to.
// It takes every reference for the only one, as it is in an object that was decoded.
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
	for t, m := range made { // only now is each of them complete
		measures.Store(t, m)
	}
	return m
}

// measurer makes the measures of a type and of all that it refers to, itself maybe.
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
		add(nil)
	case reflect.Pointer:
		if t.Elem() != locationType { // all times of a zone have it in common
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
		if at = *(*unsafe.Pointer)(at); at == nil {
			return 0
		}
		return Allocated(to.size) + to.beyond(at)
	}
}

func (made measurer) slice(t reflect.Type) func(unsafe.Pointer) int {
	of := made.of(t.Elem())
	return func(at unsafe.Pointer) int {
		s := *(*[]byte)(at) // of whatever type: only the header is read
		sum := Allocated(cap(s) * of.size)
		if len(of.parts) > 0 {
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
	}
	key, value := made.of(t.Key()), made.of(t.Elem())
	walkers := sync.Pool{New: func() any { return &walker{key: reflect.New(t.Key()), value: reflect.New(t.Elem())} }}
	return func(at unsafe.Pointer) int {
		table := reflect.NewAt(t, at).Elem()
		sum := tableBytes(table.Len(), key.size, value.size)
		if table.Len() > 0 {
			w := walkers.Get().(*walker)
			sum += w.beyond(table, key, value)
			walkers.Put(w)
		}
		return sum
	}
}

// walker walks a map. It is used again: a new one takes three allocations.
type walker struct {
	pairs      reflect.MapIter
	key, value reflect.Value // pointers to the pair that it is at
}

// beyond returns the bytes that the keys and values of a map refer to.
func (w *walker) beyond(table reflect.Value, key, value *measure) (sum int) {
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

func beyondContent(m map[string]any) int {
	sum := tableBytes(len(m), int(unsafe.Sizeof("")), int(unsafe.Sizeof(any(nil))))
	for key, value := range m {
		sum += Allocated(len(key)) + beyondAny(value)
	}
	return sum
}

// beyondAny returns the bytes of a value in an interface. Those that JSON is decoded into come first.
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
	if k := v.Kind(); k != reflect.Pointer && k != reflect.Map { // these are in the interface itself
		sum = Allocated(m.size)
	}
	return sum + m.beyond(box.UnsafePointer())
}

// Allocated returns what the runtime takes for so many bytes, about.
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
	// tableGroup is how many pairs a map makes room for at once.
	tableGroup = 8
	// tableHeader is a map without its pairs.
	tableHeader = 48
	// tableInline is the largest key or value that is in the table itself.
	tableInline = 128
)

// tableBytes returns what a map of n pairs takes, without what these refer to: it doubles its
// room when seven eighths are full.
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
