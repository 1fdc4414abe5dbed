// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tarn-dev/tarn/internal/flat/wire"
)

// An API server that answers in protobuf sends an object as the message that the generated
// Unmarshal method of its Go type reads. A wire plan says the same as that method: which field of
// the message is which field of the struct. So EncodeWire writes the flat form straight from the
// message, and no struct is made. The numbers of the fields stand in the struct tags.
//
// The plan is compared with Unmarshal before it is used, see wire_check.go.

// unmarshaler is what all types that have a protobuf message implement.
type unmarshaler interface{ Unmarshal(message []byte) error }

var (
	typeUnmarshaler = reflect.TypeFor[unmarshaler]()
	typeTypeMeta    = reflect.TypeFor[metav1.TypeMeta]()
	typeMetadata    = reflect.TypeFor[metav1.ObjectMeta]()
	typeAmount      = reflect.TypeFor[resource.Quantity]()
)

// wireValue says how a value of one Go type stands in a message.
type wireValue struct {
	plan    *plan
	wire    byte         // the wire type of one value
	own     *ownWire     // set if the Unmarshal method of the type reads it
	message *wireMessage // of a struct
	elem    *wireValue   // of a pointer, slice or map
}

// ownWire is a type whose Unmarshal method is not generated. An encoder keeps one value of it, into
// which the method reads.
type ownWire struct {
	number int
	typ    reflect.Type
}

// wireMessage says how a struct stands in a message.
type wireMessage struct {
	plan    *structPlan
	values  []*wireValue // of the fields of plan, in their order
	numbers []wire.Field // by field number
	root    bool         // one slot more is for the ObjectMeta, which is no field of plan
}

// slots returns how many values a message of m has at most.
func (m *wireMessage) slots() int {
	if m.root {
		return len(m.values) + 1
	}
	return len(m.values)
}

// wireCompiler makes the wire plan of one root type.
type wireCompiler struct {
	root   reflect.Type
	meta   uintptr // where its ObjectMeta stands
	plans  map[reflect.Type]*plan
	values map[reflect.Type]*wireValue
	owns   []*ownWire
}

// wirePlan is the wire plan of a codec.
type wirePlan struct {
	root     *wireMessage
	metadata *wireMessage
	owns     []*ownWire
}

// errNoMessage says that unstructured content has no message of its own.
var errNoMessage = errors.New("flat: unstructured content has no protobuf message")

// compileWire makes the wire plan of r. The error says what has no wire plan; objects of the type are
// then read by Unmarshal. It can be called once.
func compileWire(r *root) (*wirePlan, error) {
	switch r.flags {
	case flagMetadata:
	case flagMetadata | flagContent:
		return nil, errNoMessage
	default:
		return nil, fmt.Errorf("%v: has no ObjectMeta", r.typ)
	}
	w := &wireCompiler{root: r.typ, meta: r.meta, plans: metadataTypes(), values: map[reflect.Type]*wireValue{}}
	p, err := &wirePlan{}, error(nil)
	if p.metadata, err = w.message(typeMetadata, metadataPlan()); err != nil {
		return nil, err
	}
	w.plans, w.values = r.takePlans(), map[reflect.Type]*wireValue{}
	if p.root, err = w.message(r.typ, r.fields); err != nil {
		return nil, err
	}
	p.owns = w.owns
	return p, nil
}

// refuse makes the error for a type that has no wire plan.
func (w *wireCompiler) refuse(t reflect.Type, format string, args ...any) error {
	return fmt.Errorf("%v: %v: %s", w.root, t, fmt.Sprintf(format, args...))
}

// value returns how values of t stand in a message.
func (w *wireCompiler) value(t reflect.Type) (*wireValue, error) {
	if v, ok := w.values[t]; ok {
		return v, nil // it may be incomplete, if the type is recursive
	}
	v := &wireValue{plan: w.plans[t], wire: wire.Length}
	if v.plan == nil {
		return nil, w.refuse(t, "no plan")
	}
	w.values[t] = v
	if isOwnWire(t) {
		v.own = &ownWire{number: len(w.owns), typ: t}
		w.owns = append(w.owns, v.own)
		return v, nil
	}
	return v, w.fill(v, t)
}

// fill completes v.
func (w *wireCompiler) fill(v *wireValue, t reflect.Type) (err error) {
	switch v.plan.kind {
	case kindBool, kindInt8, kindInt16, kindInt32, kindInt64, kindUint8, kindUint16, kindUint32, kindUint64:
		v.wire = wire.Varint
	case kindFloat32:
		v.wire = wire.Fixed32
	case kindFloat64:
		v.wire = wire.Fixed64
	case kindString, kindBytes, kindStringMap:
	case kindStruct:
		v.message, err = w.message(t, v.plan.fields)
	case kindPointer, kindSlice:
		if v.elem, err = w.value(t.Elem()); err != nil {
			return err
		}
		if v.wire = v.elem.wire; v.elem.several() {
			return w.refuse(t, "a list of lists")
		}
	case kindQuantityMap, kindMap:
		if v.elem, err = w.value(t.Elem()); err != nil {
			return err
		}
		if t.Key().Kind() != reflect.String || v.elem.wire != wire.Length || v.elem.several() || v.elem.plan.nillable() && v.elem.plan.kind != kindBytes {
			return w.refuse(t, "an unusual map")
		}
	default:
		return w.refuse(t, "not a type of protobuf")
	}
	return err
}

// several says whether a value is several fields of a message.
func (v *wireValue) several() bool {
	if v.own != nil {
		return false
	}
	switch v.plan.kind {
	case kindSlice, kindStringMap, kindQuantityMap, kindMap:
		return true
	}
	return false
}

// isOwnWire says whether the Unmarshal method of t is to be called, because it is not a generated
// one that reads the fields by their tags.
func isOwnWire(t reflect.Type) bool {
	switch t {
	case typeAmount, reflect.TypeFor[runtime.RawExtension](), reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]():
		return true
	case reflect.TypeFor[metav1.FieldsV1]():
		return t.NumField() != 1 || t.Field(0).Type != reflect.TypeFor[[]byte]()
	}
	// A type without a name has no methods. Not to ask saves its pointer type, which reflect would
	// make, and keep.
	return t.Kind() != reflect.Struct && t.PkgPath() != "" && reflect.PointerTo(t).Implements(typeUnmarshaler)
}

// places says where the fields of a struct are: which slot is at an offset, and which offsets no
// number of the message leads to.
type places struct {
	slots  map[uintptr]int
	missed map[uintptr]bool
}

// message returns how the struct type t, which has the fields of s, stands in a message. Each field
// must have a number, because a message may have what the tags do not tell: the Unmarshal method may
// be that of an embedded struct.
func (w *wireCompiler) message(t reflect.Type, s *structPlan) (*wireMessage, error) {
	if !reflect.PointerTo(t).Implements(typeUnmarshaler) {
		return nil, w.refuse(t, "has no Unmarshal method")
	}
	m := &wireMessage{plan: s, root: t == w.root}
	at := &places{map[uintptr]int{}, map[uintptr]bool{}}
	if m.root {
		at.missed[w.meta] = true
	}
	for _, g := range s.groups {
		for _, f := range g.fields {
			at.slots[uintptr(f.offset)], at.missed[uintptr(f.offset)] = len(m.values), true
			m.values = append(m.values, &wireValue{plan: f.plan}) // until the field is found
		}
	}
	var err error
	if m.numbers, err = w.numbers(m, t, 0, at); err == nil && len(at.missed) > 0 {
		err = w.refuse(t, "has fields without a protobuf tag")
	}
	return m, err
}

// numbers returns the fields of the message of t by their numbers. The struct stands at offset base
// of the struct of m. TypeMeta, which has no tag, never stands in a message.
func (w *wireCompiler) numbers(m *wireMessage, t reflect.Type, base uintptr, at *places) ([]wire.Field, error) {
	var all []wire.Field
	for i := range t.NumField() {
		f := t.Field(i)
		tag, ok := f.Tag.Lookup("protobuf")
		if !ok {
			if f.Type == typeTypeMeta {
				for k := range f.Type.NumField() {
					delete(at.missed, base+f.Offset+f.Type.Field(k).Offset)
				}
			}
			continue
		}
		number, err := wire.FieldNumber(tag)
		if err != nil {
			return nil, w.refuse(t, "field %s: %v", f.Name, err)
		}
		for len(all) <= number {
			all = append(all, wire.Field{})
		}
		entry, err := w.field(m, f.Type, base+f.Offset, at)
		if err != nil {
			return nil, err
		}
		all[number] = entry
	}
	return slices.Clone(all), nil // without room for more
}

// field returns the field of type t at an offset of the struct of m.
func (w *wireCompiler) field(m *wireMessage, t reflect.Type, offset uintptr, at *places) (wire.Field, error) {
	f := wire.Field{Known: true, Wire: wire.Length, Slot: uint16(len(m.values))}
	if m.root && t == typeMetadata && offset == w.meta {
		delete(at.missed, offset)
		return f, nil
	}
	slot, ok := at.slots[offset]
	if t.Kind() == reflect.Struct && !isOwnWire(t) && (!ok || m.values[slot].plan.typ != t) {
		if !reflect.PointerTo(t).Implements(typeUnmarshaler) {
			return f, w.refuse(t, "has no Unmarshal method")
		}
		inline, err := w.numbers(m, t, offset, at)
		f.Inline = &inline
		return f, err
	}
	v, err := w.value(t)
	if err != nil {
		return f, err
	}
	if !ok || v.plan.size != m.values[slot].plan.size {
		return f, w.refuse(t, "is more than one field of the plan")
	}
	m.values[slot] = v
	delete(at.missed, offset)
	f.Slot, f.Wire, f.Repeated = uint16(slot), v.wire, v.several()
	return f, nil
}
