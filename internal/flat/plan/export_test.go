// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"
	"unique"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Broken is an assumption about memory that is made not to hold.
type Broken struct {
	Break  func(*layout)
	Type   reflect.Type // refused then
	Reason string       // why, or part of it
	Other  reflect.Type // not refused then; nil if all types are
}

// BrokenLayouts breaks each part of the layout, by what it breaks.
var BrokenLayouts = map[string]Broken{
	"slice: length before data":     {Break: func(l *layout) { l.slice[0], l.slice[1] = l.slice[1], l.slice[0] }, Reason: "layout of slices"},
	"slice: capacity before length": {Break: func(l *layout) { l.slice[1], l.slice[2] = l.slice[2], l.slice[1] }, Reason: "layout of slices"},
	"string: length first":          {Break: func(l *layout) { l.text[0], l.text[1] = l.text[1], l.text[0] }, Reason: "layout of strings"},
	"interface: data first":         {Break: func(l *layout) { l.boxed.typ, l.boxed.data = l.boxed.data, l.boxed.typ }, Reason: "layout of interfaces"},
	"interface: another type word":  {Break: func(l *layout) { l.boxed.typeWord = func(any) unsafe.Pointer { return TypeWordInt } }, Reason: "layout of interfaces"},
	"nil: not seen":                 {Break: func(l *layout) { l.isNil = func(unsafe.Pointer) bool { return false } }, Reason: "nil or false"},
	"nil: seen everywhere":          {Break: func(l *layout) { l.isNil = func(unsafe.Pointer) bool { return true } }, Reason: "nil or false"},
	"bool: true is all bits":        {Break: func(l *layout) { l.yes = 0xff }, Reason: "nil or false"},
	"metadata: UID before version": {Break: func(l *layout) {
		l.metadata = slices.Clone(l.metadata)
		l.metadata[MetaUID], l.metadata[MetaResourceVersion] = l.metadata[MetaResourceVersion], l.metadata[MetaUID]
	}, Reason: "first fields of ObjectMeta"},
	"metadata: another field": {Break: func(l *layout) {
		l.metadata = slices.Clone(l.metadata)
		l.metadata[MetaLabels] = "Finalizers"
	}, Reason: "first fields of ObjectMeta"},

	"size of a number":    {Break: func(l *layout) { l.sizes[KindInt16] = 8 }, Type: reflect.TypeFor[holder[int16]](), Reason: "int16 take 2 bytes", Other: reflect.TypeFor[holder[int64]]()},
	"size of a map":       {Break: func(l *layout) { l.sizes[KindMap] = 16 }, Type: reflect.TypeFor[holder[map[int]int]](), Reason: "map take 8 bytes", Other: reflect.TypeFor[holder[map[string]string]]()},
	"size of a handle":    {Break: func(l *layout) { l.sizes[KindHandle] = 16 }, Type: reflect.TypeFor[holder[unique.Handle[string]]](), Reason: "struct take 8 bytes", Other: reflect.TypeFor[holder[string]]()},
	"pointers":            {Break: func(l *layout) { l.pointers = func(t reflect.Type) bool { return t.Kind() == reflect.Float32 } }, Type: reflect.TypeFor[holder[*float32]](), Reason: "float32 was taken for free of pointers", Other: reflect.TypeFor[holder[*float64]]()},
	"alignment":           {Break: func(l *layout) { l.align = 4 }, Type: reflect.TypeFor[holder[int64]](), Reason: "aligned to 8 bytes", Other: reflect.TypeFor[holder[string]]()},
	"type of elements":    {Break: func(l *layout) { l.boxed.wordOf = wordOfAnother }, Type: reflect.TypeFor[holder[[]float32]](), Reason: "type word of float32", Other: reflect.TypeFor[holder[[]float64]]()},
	"map with named keys": {Break: func(l *layout) { l.view = emptyMap }, Type: reflect.TypeFor[holder[map[named]string]](), Reason: "named]string is not in memory", Other: reflect.TypeFor[holder[map[string]string]]()},
	"map of quantities":   {Break: func(l *layout) { l.view = emptyMap }, Type: reflect.TypeFor[holder[map[named]resource.Quantity]](), Reason: "Quantity is not in memory", Other: reflect.TypeFor[holder[map[string]resource.Quantity]]()},
	"map of content":      {Break: func(l *layout) { l.view = emptyMap }, Type: reflect.TypeFor[holder[map[named]any]](), Reason: "is not in memory", Other: reflect.TypeFor[holder[map[string]any]]()},

	"time: another order": mirrorBroken[struct {
		loc  *time.Location
		wall uint64
		ext  int64
	}](typeTime, reflect.TypeFor[holder[time.Time]]()),
	"time: another size": mirrorBroken[struct {
		wall uint32
		ext  int64
		loc  *time.Location
	}](typeTime, reflect.TypeFor[holder[time.Time]]()),
	"quantity: a field less": mirrorBroken[struct {
		value  int64
		scale  int32
		dec    unsafe.Pointer
		cached string
	}](typeQuantity, reflect.TypeFor[holder[resource.Quantity]]()),
	"quantity: another type": mirrorBroken[struct {
		value, scale   int64
		dec            unsafe.Pointer
		cached, format string
	}](typeQuantity, reflect.TypeFor[holder[resource.Quantity]]()),
	"raw extension: a field less": mirrorBroken[struct{ Raw []byte }](typeRawExtension, reflect.TypeFor[holder[runtime.RawExtension]]()),
	"content: a field more": mirrorBroken[struct {
		Object map[string]any
		more   int
	}](typeUnstructured, typeUnstructured),
	"quantity: a copy of the number": {
		Break: func(l *layout) {
			l.decimal = func(q *resource.Quantity) unsafe.Pointer { c := q.DeepCopy(); return unsafe.Pointer(c.AsDec()) }
		},
		Type: reflect.TypeFor[holder[resource.Quantity]](), Reason: "layout of resource.Quantity", Other: reflect.TypeFor[holder[time.Time]](),
	},
}

// holder is an object with a value of type T.
type holder[T any] struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Value T
}

type named string

// wordOfAnother is a type word that is wrong for one type.
func wordOfAnother(t reflect.Type) unsafe.Pointer {
	if t == reflect.TypeFor[float32]() {
		return wordOf(reflect.TypeFor[float64]())
	}
	return wordOf(t)
}

// emptyMap sees no pair of the map at p.
func emptyMap(as reflect.Type, _ unsafe.Pointer) reflect.Value { return reflect.MakeMap(as) }

// mirrorBroken gives a type another mirror.
func mirrorBroken[M any](of, refused reflect.Type) Broken {
	return Broken{
		Break: func(l *layout) {
			l.mirrors = maps.Clone(l.mirrors)
			l.mirrors[of] = mirror{reflect.TypeFor[M](), l.mirrors[of].fields}
		},
		Type: refused, Reason: "layout of " + of.String(), Other: reflect.TypeFor[holder[string]](),
	}
}

// WithLayout lets For find that memory is not as assumed, for one type, until the test ends.
func WithLayout(t *testing.T, typ reflect.Type, breakIt func(*layout)) {
	broken := goLayout
	breakIt(&broken)
	known, had := compiled.Load(typ)
	compiled.Store(typ, func() (*Root, error) { return compile(typ, &broken) })
	t.Cleanup(func() {
		compiled.Delete(typ)
		if had {
			compiled.Store(typ, known)
		}
	})
}
