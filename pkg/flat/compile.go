// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

import (
	"fmt"
	"reflect"
	"sort"
	"time"
	"unique"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	// inlineFields is the number of fields up to which a struct inside a struct loses its own
	// bitmap and joins the bitmap of the outer one: bits are cheaper than another level.
	inlineFields = 8
	// sharedSize is the size from which a struct is worth a place in the dictionary as a whole.
	sharedSize = 48
)

var (
	typeTime         = reflect.TypeFor[time.Time]()
	typeQuantity     = reflect.TypeFor[resource.Quantity]()
	typeRawExtension = reflect.TypeFor[runtime.RawExtension]()
	typeFieldsV1     = reflect.TypeFor[metav1.FieldsV1]()
	typeHandle       = reflect.TypeFor[unique.Handle[string]]()
	typeObjectMeta   = reflect.TypeFor[metav1.ObjectMeta]()
	typeAny          = reflect.TypeFor[any]()
	typeContentMap   = reflect.TypeFor[map[string]any]()
)

// metadataOrder puts the fields of ObjectMeta that are read without materializing first.
var metadataOrder = map[string]int{
	"Namespace": -6, "Name": -5, "ResourceVersion": -4, "UID": -3, "Labels": -2, "Annotations": -1,
}

// compiler makes the plans of one root type. A plan is entered before it is complete, so that
// recursive types find themselves.
type compiler struct {
	root  reflect.Type
	plans map[reflect.Type]*plan
}

// refuse makes the error for the field at path.
func (c *compiler) refuse(path, format string, args ...any) error {
	if path == "" {
		path = "(the type itself)"
	}
	return &UnsupportedError{Type: c.root, Path: path, Reason: fmt.Sprintf(format, args...)}
}

// plan returns the plan of t, which is found at path.
func (c *compiler) plan(t reflect.Type, path string) (*plan, error) {
	if p, ok := c.plans[t]; ok {
		return p, nil
	}
	p := &plan{typ: t, size: t.Size(), align: uintptr(t.Align())}
	c.plans[t] = p
	if known, err := c.special(p, t, path); known || err != nil {
		return p, err
	}
	if k, ok := scalarKind(t); ok {
		p.kind, p.noscan = k, k != kindString
		return p, nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return p, c.element(p, kindPointer, t.Elem(), path)
	case reflect.Slice:
		return p, c.slice(p, t, path)
	case reflect.Array:
		p.count = t.Len()
		err := c.element(p, kindArray, t.Elem(), path)
		p.noscan = err == nil && p.elem.noscan
		return p, err
	case reflect.Map:
		return p, c.mapping(p, t, path)
	case reflect.Struct:
		p.kind = kindStruct
		p.shared = t.Size() >= sharedSize
		fields, err := c.fields(t, path)
		if err != nil {
			return nil, err
		}
		p.fields = groupFields(fields)
		p.noscan = allNoscan(fields)
		return p, nil
	case reflect.Interface:
		return nil, c.refuse(path, "%v is an interface: what it holds is unknown", t)
	default:
		return nil, c.refuse(path, "values of kind %v cannot be copied", t.Kind())
	}
}

// allNoscan says whether no field holds a pointer.
func allNoscan(fields []field) bool {
	for _, f := range fields {
		if !f.plan.noscan {
			return false
		}
	}
	return true
}

// special fills in p when t is a type with a form of its own.
func (c *compiler) special(p *plan, t reflect.Type, path string) (bool, error) {
	switch t {
	case typeTime:
		p.kind = kindTime
		if !knownTimeLayout() {
			return true, c.refuse(path, "the memory layout of time.Time is not the known one")
		}
	case typeQuantity:
		p.kind = kindQuantity
		if !knownQuantityLayout() {
			return true, c.refuse(path, "the memory layout of resource.Quantity is not the known one")
		}
	case typeRawExtension:
		p.kind = kindRawExtension
	case typeHandle:
		p.kind = kindHandle
	case typeAny:
		p.kind = kindContent
	case typeContentMap:
		p.kind = kindContentMap
	default:
		return false, nil
	}
	return true, nil
}

// scalarKind returns the kind of types that hold no other type.
func scalarKind(t reflect.Type) (kind, bool) {
	switch t.Kind() {
	case reflect.Bool:
		return kindBool, true
	case reflect.Int, reflect.Int64:
		return map[uintptr]kind{4: kindInt32, 8: kindInt64}[t.Size()], true
	case reflect.Int8:
		return kindInt8, true
	case reflect.Int16:
		return kindInt16, true
	case reflect.Int32:
		return kindInt32, true
	case reflect.Uint, reflect.Uint64:
		return map[uintptr]kind{4: kindUint32, 8: kindUint64}[t.Size()], true
	case reflect.Uint8:
		return kindUint8, true
	case reflect.Uint16:
		return kindUint16, true
	case reflect.Uint32:
		return kindUint32, true
	case reflect.Float32:
		return kindFloat32, true
	case reflect.Float64:
		return kindFloat64, true
	case reflect.String:
		return kindString, true
	default:
		return 0, false
	}
}

// element makes p a container of t.
//
// The kind stands before the element is looked at: a recursive type meets its own plan there.
func (c *compiler) element(p *plan, k kind, t reflect.Type, path string) error {
	p.kind = k
	elem, err := c.plan(t, path)
	p.elem = elem
	return err
}

// slice fills in p for a slice type.
func (c *compiler) slice(p *plan, t reflect.Type, path string) error {
	if k := t.Elem().Kind(); k == reflect.Uint8 || k == reflect.Int8 {
		p.kind = kindBytes
		return nil
	}
	if t.Elem().Size() == 0 {
		return c.refuse(path, "elements without size cannot be counted in bytes")
	}
	p.slicePointer = typeWord(reflect.Zero(reflect.PointerTo(t)).Interface())
	return c.element(p, kindSlice, t.Elem(), path)
}

// mapping fills in p for a map type.
func (c *compiler) mapping(p *plan, t reflect.Type, path string) error {
	key, err := c.plan(t.Key(), path)
	if err != nil {
		return err
	}
	p.key = key
	switch {
	case key.kind > kindUint64 && key.kind != kindString:
		return c.refuse(path, "map keys of type %v have no order", t.Key())
	case key.kind != kindString:
		return c.element(p, kindMap, t.Elem(), path)
	case t.Elem().Kind() == reflect.String:
		p.kind = kindStringMap
		return nil
	case t.Elem() == typeQuantity:
		return c.element(p, kindQuantityMap, t.Elem(), path)
	case t.Elem() == typeAny:
		p.kind = kindContentMap
		return nil
	default:
		return c.element(p, kindMap, t.Elem(), path)
	}
}

// fields lists the fields of a struct; small structs inside it are spread out.
func (c *compiler) fields(t reflect.Type, path string) ([]field, error) {
	var out []field
	for _, i := range fieldOrder(t) {
		fields, err := c.single(t, t.Field(i), path)
		if err != nil {
			return nil, err
		}
		out = append(out, fields...)
	}
	return out, nil
}

// single lists what stands for the one field f of t.
func (c *compiler) single(t reflect.Type, f reflect.StructField, path string) ([]field, error) {
	at := join(path, f.Name)
	embedded := f.Anonymous && f.Type.Kind() == reflect.Struct
	if !f.IsExported() && !embedded && !(t == typeFieldsV1 && f.Type == typeHandle) {
		return nil, c.refuse(at, "unexported field: what it means is unknown")
	}
	p, err := c.plan(f.Type, at)
	if err != nil {
		return nil, err
	}
	return spread(p, f.Offset), nil
}

// rootFields lists the fields of the root struct without the ObjectMeta at offset skip, which is
// written before all else. Embedded structs are spread out whatever their size, so that the
// ObjectMeta is found.
func (c *compiler) rootFields(t reflect.Type, path string, base, skip uintptr) ([]field, error) {
	var out []field
	for i := range t.NumField() {
		f := t.Field(i)
		offset := base + f.Offset
		switch {
		case f.Type == typeObjectMeta && offset == skip:
			continue
		case f.Anonymous && f.IsExported() && f.Type.Kind() == reflect.Struct && f.Type != typeObjectMeta && !isSpecial(f.Type):
			inner, err := c.rootFields(f.Type, join(path, f.Name), offset, skip)
			if err != nil {
				return nil, err
			}
			out = append(out, inner...)
		default:
			fields, err := c.single(t, f, path)
			if err != nil {
				return nil, err
			}
			for _, g := range fields {
				g.offset += base
				out = append(out, g)
			}
		}
	}
	return out, nil
}

// isSpecial says whether t has a form of its own.
func isSpecial(t reflect.Type) bool {
	return t == typeTime || t == typeQuantity || t == typeRawExtension
}

// spread returns the fields that stand for one field of plan p at offset.
func spread(p *plan, offset uintptr) []field {
	if p.kind != kindStruct {
		return []field{{offset: offset, kind: p.kind, plan: p}}
	}
	if len(p.fields.groups) == 0 {
		return nil
	}
	if len(p.fields.groups) > 1 || len(p.fields.groups[0].fields) > inlineFields {
		return []field{{offset: offset, kind: kindStruct, plan: p}}
	}
	var out []field
	for _, f := range p.fields.groups[0].fields {
		f.offset += offset
		out = append(out, f)
	}
	return out
}

// fieldOrder returns the order in which the fields of t are written.
func fieldOrder(t reflect.Type) []int {
	order := make([]int, t.NumField())
	for i := range order {
		order[i] = i
	}
	if t == typeObjectMeta {
		sort.SliceStable(order, func(a, b int) bool {
			return metadataOrder[t.Field(order[a]).Name] < metadataOrder[t.Field(order[b]).Name]
		})
	}
	return order
}

// join extends a path by a field name.
func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
