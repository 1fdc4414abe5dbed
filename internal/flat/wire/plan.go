// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tarn-dev/tarn/internal/flat/plan"
)

// Unmarshaler is what all types that have a protobuf message implement.
type Unmarshaler interface{ Unmarshal(message []byte) error }

var (
	typeUnmarshaler = reflect.TypeFor[Unmarshaler]()
	typeTypeMeta    = reflect.TypeFor[metav1.TypeMeta]()
	typeMetadata    = reflect.TypeFor[metav1.ObjectMeta]()
	typeAmount      = reflect.TypeFor[resource.Quantity]()
)

// Value says how a value of one Go type stands in a message.
type Value struct {
	Plan    *plan.Plan
	wire    byte     // the wire type of one value
	Dated   bool     // there is a time in the value, probably: an encoder does not look for such a value, because it would not find it
	Own     uint16   // the number of the type among Plan.Owns, from 1, if its Unmarshal method is not generated
	Message *Message // of a struct
	Elem    *Value   // of a pointer, slice or map
}

// Next returns the first of several values of a field, which stand with their tags in b, and what
// follows it. Scan must have found them. For a slice, v is its element.
func (v *Value) Next(b []byte) (value, rest []byte) { return next(v.wire, b) }

// Message says how a struct stands in a message.
type Message struct {
	Plan    *plan.Struct
	Values  []*Value  // of the fields of plan, in their order
	numbers []field   // by field number
	inlines [][]field // the fields of each inline message, by field number
	root    bool      // one slot more is for the ObjectMeta, which is no field of plan
}

// Scan appends the slots of a message: one for each of m.Values and, if m is that of an object, one for
// its ObjectMeta. It returns false if the message is unusual, so that Unmarshal has to read it.
func (m *Message) Scan(slots []Slot, message []byte) ([]Slot, bool) {
	base := len(slots)
	for range m.Values {
		slots = append(slots, Slot{})
	}
	if m.root {
		slots = append(slots, Slot{})
	}
	return slots, m.scan(slots[base:], m.numbers, message, 0, len(message))
}

// compiler makes the plan of one root type.
type compiler struct {
	root   reflect.Type
	meta   uintptr // where its ObjectMeta stands
	plans  map[reflect.Type]*plan.Plan
	values map[reflect.Type]*Value
	owns   []reflect.Type
}

// Plan says how the objects of a type stand in messages.
type Plan struct {
	Root     *Message
	Metadata *Message
	Owns     []reflect.Type // types whose Unmarshal method is not generated: an encoder keeps a value of each, into which the method reads
}

// errNoMessage says that unstructured content has no message of its own.
var errNoMessage = errors.New("flat: unstructured content has no protobuf message")

// Compile makes the plan of the messages of r. The error says what has no such plan; objects of the type
// are then read by Unmarshal. It can be called once for each Root.
func Compile(r *plan.Root) (*Plan, error) {
	switch {
	case r.IsContent():
		return nil, errNoMessage
	case !r.HasMetadata():
		return nil, fmt.Errorf("%v: has no ObjectMeta", r.Type)
	}
	w := &compiler{root: r.Type, meta: r.Meta, plans: plan.MetadataTypes(), values: map[reflect.Type]*Value{}}
	p, err := &Plan{}, error(nil)
	if p.Metadata, err = w.message(typeMetadata, plan.Metadata()); err != nil {
		return nil, err
	}
	w.plans, w.values = r.TakePlans(), map[reflect.Type]*Value{}
	if p.Root, err = w.message(r.Type, r.Fields); err != nil {
		return nil, err
	}
	p.Owns = w.owns
	return p, nil
}

// refuse makes the error for a type that has no plan.
func (w *compiler) refuse(t reflect.Type, format string, args ...any) error {
	return fmt.Errorf("%v: %v: %s", w.root, t, fmt.Sprintf(format, args...))
}

// value returns how values of t stand in a message.
func (w *compiler) value(t reflect.Type) (*Value, error) {
	if v, ok := w.values[t]; ok {
		return v, nil // it may be incomplete, if the type is recursive
	}
	v := &Value{Plan: w.plans[t], wire: length}
	if v.Plan == nil {
		return nil, w.refuse(t, "no plan")
	}
	w.values[t] = v
	if isOwnWire(t) {
		w.owns = append(w.owns, t)
		v.Own, v.Dated = uint16(len(w.owns)), t == reflect.TypeFor[metav1.Time]() || t == reflect.TypeFor[metav1.MicroTime]()
		return v, nil
	}
	return v, w.fill(v, t)
}

// fill completes v.
func (w *compiler) fill(v *Value, t reflect.Type) (err error) {
	switch v.Plan.Kind {
	case plan.KindBool, plan.KindInt8, plan.KindInt16, plan.KindInt32, plan.KindInt64, plan.KindUint8, plan.KindUint16, plan.KindUint32, plan.KindUint64:
		v.wire = varint
	case plan.KindFloat32:
		v.wire = fixed32
	case plan.KindFloat64:
		v.wire = fixed64
	case plan.KindString, plan.KindBytes, plan.KindStringMap:
	case plan.KindStruct:
		if v.Message, err = w.message(t, v.Plan.Fields); err == nil {
			v.Dated = slices.ContainsFunc(v.Message.Values, func(of *Value) bool { return of.Dated })
		}
	case plan.KindPointer, plan.KindSlice:
		if v.Elem, err = w.value(t.Elem()); err != nil {
			return err
		}
		if v.wire = v.Elem.wire; v.Elem.several() {
			return w.refuse(t, "a list of lists")
		}
		v.Dated = v.Elem.Dated && (v.Elem.Own != 0 || v.Plan.Kind == plan.KindSlice)
	case plan.KindQuantityMap, plan.KindMap:
		if v.Elem, err = w.value(t.Elem()); err != nil {
			return err
		}
		if t.Key().Kind() != reflect.String || v.Elem.wire != length || v.Elem.several() || v.Elem.Plan.Nillable() && v.Elem.Plan.Kind != plan.KindBytes {
			return w.refuse(t, "an unusual map")
		}
		v.Dated = v.Elem.Dated
	default:
		return w.refuse(t, "not a type of protobuf")
	}
	return err
}

// several says whether a value is several fields of a message.
func (v *Value) several() bool {
	if v.Own != 0 {
		return false
	}
	switch v.Plan.Kind {
	case plan.KindSlice, plan.KindStringMap, plan.KindQuantityMap, plan.KindMap:
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
func (w *compiler) message(t reflect.Type, s *plan.Struct) (*Message, error) {
	if !reflect.PointerTo(t).Implements(typeUnmarshaler) {
		return nil, w.refuse(t, "has no Unmarshal method")
	}
	m := &Message{Plan: s, Values: make([]*Value, 0, s.Len()), root: t == w.root}
	at := &places{map[uintptr]int{}, map[uintptr]bool{}}
	if m.root {
		at.missed[w.meta] = true
	}
	for _, g := range s.Groups {
		for _, f := range g.Fields {
			at.slots[uintptr(f.Offset)], at.missed[uintptr(f.Offset)] = len(m.Values), true
			m.Values = append(m.Values, &Value{Plan: f.Plan}) // until the field is found
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
func (w *compiler) numbers(m *Message, t reflect.Type, base uintptr, at *places) ([]field, error) {
	var all []field
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
		number, err := fieldNumber(tag)
		if err != nil {
			return nil, w.refuse(t, "field %s: %v", f.Name, err)
		}
		for len(all) <= number {
			all = append(all, field{})
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
func (w *compiler) field(m *Message, t reflect.Type, offset uintptr, at *places) (field, error) {
	f := field{known: true, wire: length, slot: uint16(len(m.Values))}
	if m.root && t == typeMetadata && offset == w.meta {
		delete(at.missed, offset)
		return f, nil
	}
	slot, ok := at.slots[offset]
	if t.Kind() == reflect.Struct && !isOwnWire(t) && (!ok || m.Values[slot].Plan.Type != t) {
		if !reflect.PointerTo(t).Implements(typeUnmarshaler) {
			return f, w.refuse(t, "has no Unmarshal method")
		}
		inline, err := w.numbers(m, t, offset, at)
		f.inline, f.slot = true, uint16(len(m.inlines))
		m.inlines = append(m.inlines, inline)
		return f, err
	}
	v, err := w.value(t)
	if err != nil {
		return f, err
	}
	if !ok || v.Plan.Size != m.Values[slot].Plan.Size {
		return f, w.refuse(t, "is more than one field of the plan")
	}
	m.Values[slot] = v
	delete(at.missed, offset)
	f.slot, f.wire, f.repeated = uint16(slot), v.wire, v.several()
	return f, nil
}
