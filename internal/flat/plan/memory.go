// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"reflect"
	"time"
	"unique"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// The types that are known by their memory or their name.
var (
	typeTime         = reflect.TypeFor[time.Time]()
	typeQuantity     = reflect.TypeFor[resource.Quantity]()
	typeRawExtension = reflect.TypeFor[runtime.RawExtension]()
	typeFieldsV1     = reflect.TypeFor[metav1.FieldsV1]()
	typeHandle       = reflect.TypeFor[unique.Handle[string]]()
	typeObjectMeta   = reflect.TypeFor[metav1.ObjectMeta]()
	typeAny          = reflect.TypeFor[any]()
	typeContentMap   = reflect.TypeFor[map[string]any]()
	typeUnstructured = reflect.TypeFor[unstructured.Unstructured]()
)

// The type words of the interfaces that content puts values into.
var (
	TypeWordString = typeWord("")
	TypeWordInt    = typeWord(int64(0))
	TypeWordFloat  = typeWord(float64(0))
	TypeWordNumber = typeWord(json.Number(""))
)

// Boxed returns the interface that holds the value at p. That value must never change.
func Boxed(typ, p unsafe.Pointer) (v any) {
	*(*interfaceHeader)(unsafe.Pointer(&v)) = interfaceHeader{typ: typ, data: p}
	return v
}

// wordSize is the size of a pointer.
const wordSize = unsafe.Sizeof(uintptr(0))

// TimeMemory mirrors time.Time. All of it is kept, a monotonic reading too.
type TimeMemory struct {
	Wall uint64
	Ext  int64
	Loc  *time.Location
}

// QuantityMemory mirrors resource.Quantity. All of it is kept, the cached string too.
type QuantityMemory struct {
	Value  int64
	Scale  int32
	Dec    unsafe.Pointer // *inf.Dec
	Cached string
	Format string
}

// newArray allocates zeroed memory for n values of the type with that type word. The Go runtime keeps
// it for packages outside of reflect, go.dev/issue/67401.
//
//go:linkname newArray reflect.unsafe_NewArray
func newArray(word unsafe.Pointer, n int) unsafe.Pointer

// SliceHeader is the memory of a slice of any element type.
type SliceHeader struct {
	Data unsafe.Pointer
	Len  int
	Cap  int
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

// Nothing is the memory to which empty slices refer that are not nil.
var Nothing struct{}
