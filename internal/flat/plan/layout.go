// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"math"
	"reflect"
	"sort"
	"strconv"
	"unique"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
)

// layout is what the codec assumes of Go's memory: the package comment lists it under "Unsafe
// assumptions". The compiler compares it with the running program and refuses the types that it
// does not fit. There is one, goLayout; it is a parameter of the compiler because the tests break
// each part of it.
type layout struct {
	slice [3]uintptr // offsets of the data pointer, the length and the capacity of a slice
	text  [2]uintptr // offsets of the data pointer and the length of a string
	boxed interfaceLayout

	isNil func(p unsafe.Pointer) bool // whether the slice, map, pointer, interface or handle at p is nil
	yes   byte                        // the byte of true

	sizes    [kindUnknown]uintptr    // bytes of a value of each kind; 0 where they depend on the type
	align    uintptr                 // alignment of the memory that pointer-free values are carved from
	pointers func(reflect.Type) bool // whether values of a type hold pointers

	view    func(as reflect.Type, p unsafe.Pointer) reflect.Value // what is at p, as a value of another type
	mirrors map[reflect.Type]mirror
	decimal func(*resource.Quantity) unsafe.Pointer // the number that the quantity refers to, made if it has none

	metadata []string // the fields of ObjectMeta that come first
}

// interfaceLayout is the part of layout for empty interfaces.
type interfaceLayout struct {
	typ, data uintptr                           // offsets of the type word and of the data word
	typeWord  func(any) unsafe.Pointer          // the type word of an interface
	wordOf    func(reflect.Type) unsafe.Pointer // the type word of interfaces that hold a value of a type
}

// mirror is a struct of this package that stands for one of another package.
type mirror struct {
	typ    reflect.Type
	fields []string // all fields of the other struct, in the order in which they stand
}

// goLayout is the memory layout of the programs that Go builds today.
var goLayout = layout{
	slice: [3]uintptr{unsafe.Offsetof(SliceHeader{}.Data), unsafe.Offsetof(SliceHeader{}.Len), unsafe.Offsetof(SliceHeader{}.Cap)},
	text:  [2]uintptr{0, wordSize},
	boxed: interfaceLayout{unsafe.Offsetof(interfaceHeader{}.typ), unsafe.Offsetof(interfaceHeader{}.data), typeWord, wordOf},
	isNil: func(p unsafe.Pointer) bool { return *(*unsafe.Pointer)(p) == nil },
	yes:   1,
	sizes: [kindUnknown]uintptr{
		KindBool: 1, KindInt8: 1, KindInt16: 2, KindInt32: 4, KindInt64: 8, KindUint8: 1, KindUint16: 2, KindUint32: 4, KindUint64: 8,
		KindFloat32: 4, KindFloat64: 8, KindString: 2 * wordSize, KindBytes: unsafe.Sizeof(SliceHeader{}), KindSlice: unsafe.Sizeof(SliceHeader{}),
		KindPointer: wordSize, KindStringMap: wordSize, KindQuantityMap: wordSize, KindContentMap: wordSize, KindMap: wordSize, KindHandle: wordSize,
		KindContent: unsafe.Sizeof(interfaceHeader{}),
	},
	align:    unsafe.Alignof(uint64(0)),
	pointers: holdsPointers,
	view:     func(as reflect.Type, p unsafe.Pointer) reflect.Value { return reflect.NewAt(as, p).Elem() },
	mirrors: map[reflect.Type]mirror{
		typeTime:     {reflect.TypeFor[TimeMemory](), []string{"wall", "ext", "loc"}},
		typeQuantity: {reflect.TypeFor[QuantityMemory](), []string{"i.value", "i.scale", "d.Dec", "s", "Format"}},
		typeRawExtension: {reflect.TypeFor[struct {
			Raw    []byte
			Object runtime.Object
		}](), []string{"Raw", "Object"}},
		typeUnstructured: {reflect.TypeFor[struct{ Object map[string]any }](), []string{"Object"}},
	},
	decimal:  func(q *resource.Quantity) unsafe.Pointer { return unsafe.Pointer(q.AsDec()) },
	metadata: firstMetadata,
}

// wordAt returns a word of memory, as a number: what a wrong layout takes for a pointer must not
// be one to the garbage collector.
func wordAt(p unsafe.Pointer, offset uintptr) uintptr { return *(*uintptr)(unsafe.Add(p, offset)) }

// broken returns what does not hold in this program, whatever the type; "" if all holds.
func (l *layout) broken() string {
	switch {
	case !l.knowsSlices():
		return "the memory layout of slices is not the known one"
	case !l.knowsStrings():
		return "the memory layout of strings is not the known one"
	case !l.knowsInterfaces():
		return "the memory layout of interfaces is not the known one"
	case !l.knowsNil():
		return "what is nil or false in memory is not the known one"
	}
	return ""
}

// knowsSlices checks the header of slices, read and written.
func (l *layout) knowsSlices() bool {
	if !holdsSlice(l, make([]byte, 2, 5)) || !holdsSlice(l, make([]struct{ a, b string }, 3, 4)) || !holdsSlice(l, []*int{}) {
		return false
	}
	written := SliceHeader{Data: unsafe.Pointer(&Nothing)}
	if empty := *(*[]string)(unsafe.Pointer(&written)); empty == nil || len(empty) != 0 || cap(empty) != 0 {
		return false
	}
	var words [2]uint64
	written = SliceHeader{Data: unsafe.Pointer(&words), Len: 1, Cap: 2}
	numbers := *(*[]uint64)(unsafe.Pointer(&written))
	return len(numbers) == 1 && cap(numbers) == 2 && &numbers[0] == &words[0]
}

// holdsSlice says whether the parts of s stand where l says.
func holdsSlice[T any](l *layout, s []T) bool {
	p := unsafe.Pointer(&s)
	return wordAt(p, l.slice[0]) == uintptr(unsafe.Pointer(unsafe.SliceData(s))) &&
		wordAt(p, l.slice[1]) == uintptr(len(s)) && wordAt(p, l.slice[2]) == uintptr(cap(s))
}

// knowsStrings checks the header of strings. The encoder looks at the length alone.
func (l *layout) knowsStrings() bool {
	for _, s := range []string{"", "text", "text"[4:]} {
		p := unsafe.Pointer(&s)
		if wordAt(p, l.text[1]) != uintptr(len(s)) || s != "" && wordAt(p, l.text[0]) != uintptr(unsafe.Pointer(unsafe.StringData(s))) {
			return false
		}
	}
	return true
}

// knowsInterfaces checks the two words of an empty interface: a pointer is its data word itself,
// the other values that content boxes are what its data word points to.
func (l *layout) knowsInterfaces() bool {
	p := &[]string{"text"}
	v, none := any(p), any(nil)
	if wordAt(unsafe.Pointer(&v), l.boxed.data) != uintptr(unsafe.Pointer(p)) || wordAt(unsafe.Pointer(&none), l.boxed.typ) != 0 {
		return false
	}
	if q, ok := Boxed(l.boxed.typeWord(v), unsafe.Pointer(p)).(*[]string); !ok || q != p {
		return false
	}
	text, number := "text", json.Number("12")
	whole, part := int64(-1)<<40, 0.5
	return Boxed(TypeWordString, unsafe.Pointer(&text)) == any(text) && Boxed(TypeWordNumber, unsafe.Pointer(&number)) == any(number) &&
		Boxed(TypeWordInt, unsafe.Pointer(&whole)) == any(whole) && Boxed(TypeWordFloat, unsafe.Pointer(&part)) == any(part)
}

// knowsNil checks how the encoder sees that a value is nil, or false.
func (l *layout) knowsNil() bool {
	slice, noSlice := []string{}, []string(nil)
	table, noTable := map[string]int{}, map[string]int(nil)
	pointer, noPointer := new(int), (*int)(nil)
	boxed, noBox := any(0), any(nil)
	handle, noHandle := unique.Make(""), unique.Handle[string]{}
	for _, p := range []unsafe.Pointer{unsafe.Pointer(&slice), unsafe.Pointer(&table), unsafe.Pointer(&pointer), unsafe.Pointer(&boxed), unsafe.Pointer(&handle)} {
		if l.isNil(p) {
			return false
		}
	}
	for _, p := range []unsafe.Pointer{unsafe.Pointer(&noSlice), unsafe.Pointer(&noTable), unsafe.Pointer(&noPointer), unsafe.Pointer(&noBox), unsafe.Pointer(&noHandle)} {
		if !l.isNil(p) {
			return false
		}
	}
	yes, no := true, false
	return *(*byte)(unsafe.Pointer(&yes)) == l.yes && *(*byte)(unsafe.Pointer(&no)) == 0
}

// knowsMetadata says whether the plan of ObjectMeta begins with the fields that are read without
// materializing, in the order of their numbers, so that an Object can be asked for them.
func (l *layout) knowsMetadata(s *Struct) bool {
	first := s.Groups[0].Fields
	for i, name := range l.metadata {
		want := KindString
		if i >= MetaLabels {
			want = KindStringMap
		}
		f, ok := typeObjectMeta.FieldByName(name)
		if !ok || i >= len(first) || uintptr(first[i].Offset) != f.Offset || first[i].Kind != want {
			return false
		}
	}
	return true
}

// mismatch returns why values of the compiled plan p are not what the codec takes them for; "" if
// they are.
func (l *layout) mismatch(p *Plan) string {
	switch {
	case p.Size > math.MaxUint32:
		return "values of type " + p.Type.String() + " are too large"
	case l.sizes[p.Kind] != 0 && l.sizes[p.Kind] != p.Size:
		return "values of kind " + p.Type.Kind().String() + " take " + strconv.Itoa(int(p.Size)) + " bytes, which is not the known size"
	case p.Noscan && l.pointers(p.Type):
		return p.Type.String() + " was taken for free of pointers"
	case p.Noscan && uintptr(p.Align) > l.align:
		return "values of type " + p.Type.String() + " must be aligned to " + strconv.Itoa(int(p.Align)) + " bytes"
	case !l.names(p.Type):
		return "the type word of " + p.Type.String() + " is not the known one"
	case p.Kind == KindStringMap && !l.viewsMap(p.Type, reflect.TypeFor[map[string]string]()),
		p.Kind == KindQuantityMap && !l.viewsMap(p.Type, reflect.TypeFor[map[string]resource.Quantity]()),
		p.Kind == KindContentMap && !l.viewsMap(p.Type, typeContentMap):
		return "a map of type " + p.Type.String() + " is not in memory what one with keys and values of the type string is"
	}
	return ""
}

// holdsPointers says whether the garbage collector must look at values of type t. It is apart from
// what the compiler finds, which it confirms.
func holdsPointers(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Array:
		return t.Len() > 0 && holdsPointers(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if holdsPointers(t.Field(i).Type) {
				return true
			}
		}
		return false
	default:
		return t.Kind() < reflect.Bool || t.Kind() > reflect.Complex128
	}
}

// names says whether an interface with the type word of t holds a value of type t.
func (l *layout) names(t reflect.Type) bool {
	return reflect.TypeOf(Boxed(l.boxed.wordOf(t), nil)) == t
}

// viewsMap says whether a map of type t can be read and written as one of type as: the two differ
// at most in the names of their key and element types.
func (l *layout) viewsMap(t, as reflect.Type) bool {
	if t.Key() == as.Key() && t.Elem() == as.Elem() {
		return true
	}
	if t.Key().Kind() != as.Key().Kind() || t.Elem().Kind() != as.Elem().Kind() || t.Elem().Size() != as.Elem().Size() {
		return false
	}
	return l.viewsPairs(t, as) && l.viewsPairs(as, t)
}

// viewsPairs writes into a map of type t and finds that in the map as one of type as, and the
// other way round. There are enough pairs for the map to have grown.
func (l *layout) viewsPairs(t, as reflect.Type) bool {
	const pairs = 40
	p := reflect.New(t)
	p.Elem().Set(reflect.MakeMap(t))
	viewed := l.view(as, p.UnsafePointer())
	for i := range pairs {
		into := p.Elem()
		if i%2 != 0 {
			into = viewed
		}
		into.SetMapIndex(mapText(strconv.Itoa(i), into.Type().Key()), mapText(strconv.Itoa(i), into.Type().Elem()))
	}
	for i := range pairs {
		for _, m := range []reflect.Value{p.Elem(), viewed} {
			v := m.MapIndex(mapText(strconv.Itoa(i), m.Type().Key()))
			if m.Len() != pairs || !v.IsValid() || v.Kind() == reflect.String && v.String() != strconv.Itoa(i) {
				return false
			}
		}
	}
	return true
}

// mapText returns s as a value of type t, or the zero value if t is no string type.
func mapText(s string, t reflect.Type) reflect.Value {
	if t.Kind() == reflect.String {
		return reflect.ValueOf(s).Convert(t)
	}
	return reflect.Zero(t)
}

// mirrored says whether the mirror of t has the fields of t and no others, at the same places.
func (l *layout) mirrored(t reflect.Type) bool {
	m := l.mirrors[t]
	there, here := leaves(t, "", 0), leaves(m.typ, "", 0)
	if t.Size() != m.typ.Size() || len(there) != len(here) || len(there) != len(m.fields) {
		return false
	}
	for i, f := range there {
		if g := here[i]; f.path != m.fields[i] || f.offset != g.offset || f.kind != g.kind || f.size != g.size {
			return false
		}
	}
	return t != typeQuantity || l.knowsDecimal()
}

// knowsDecimal says whether the large number of a quantity is what QuantityMemory takes it for,
// and what AsDec returns.
func (l *layout) knowsDecimal() bool {
	q := resource.MustParse("7")
	small := q
	made := l.decimal(&q)
	return (*QuantityMemory)(unsafe.Pointer(&small)).Dec == nil && (*QuantityMemory)(unsafe.Pointer(&q)).Dec == made &&
		l.decimal(&q) == made
}

// leaf is a field of a struct, or of a struct in it, that is no struct itself.
type leaf struct {
	path   string
	offset uintptr
	kind   reflect.Kind
	size   uintptr
}

// leaves lists the leaves of a struct type in the order in which they stand.
func leaves(t reflect.Type, path string, base uintptr) []leaf {
	var all []leaf
	for i := range t.NumField() {
		f := t.Field(i)
		at := join(path, f.Name)
		switch k := f.Type.Kind(); k {
		case reflect.Struct:
			all = append(all, leaves(f.Type, at, base+f.Offset)...)
		case reflect.UnsafePointer: // stands for a pointer to what this package does not import
			all = append(all, leaf{at, base + f.Offset, reflect.Pointer, f.Type.Size()})
		default:
			all = append(all, leaf{at, base + f.Offset, k, f.Type.Size()})
		}
	}
	// Package slices would add 12 KB for this type to each program.
	sort.Slice(all, func(i, k int) bool { return all[i].offset < all[k].offset })
	return all
}

// join extends a path by a field name.
func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
