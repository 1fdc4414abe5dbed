// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

import (
	"fmt"
	"reflect"
	"slices"
	"sort"
	"time"
	"unique"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	// inlineFields is the number of fields up to which a struct inside a struct has no bitmap of
	// its own and uses the bitmap of the outer struct: bits are cheaper than another level.
	inlineFields = 8
	// sharedSize is the size in bytes from which a struct may enter the dictionary as a whole.
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

// metadataOrder puts those fields of ObjectMeta first that are read without decoding the object.
var metadataOrder = map[string]int{
	"Namespace": -6, "Name": -5, "ResourceVersion": -4, "UID": -3, "Labels": -2, "Annotations": -1,
}

// compiler makes the plans of one root type. A struct needs the complete plans of the values that
// it contains, which cannot be recursive. The plans of types behind pointers, slices and maps can
// be recursive; they wait until the struct is complete.
type compiler struct {
	root    reflect.Type
	layout  *layout
	plans   map[reflect.Type]*plan
	waiting []waitingPlan
	// pointees are the plans of the elements of pointers and slices, in the order in which the
	// compiler found them.
	pointees []*plan
}

// waitingPlan is an incomplete plan to which another plan refers, and the path at which it does.
type waitingPlan struct {
	plan *plan
	path string
}

// newCompiler returns a compiler for root. The layout l says what memory must look like.
func newCompiler(root reflect.Type, l *layout) *compiler {
	return &compiler{root: root, layout: l, plans: map[reflect.Type]*plan{}}
}

// finish completes the plans that wait, and the plans to which these refer.
func (c *compiler) finish() error {
	for len(c.waiting) > 0 {
		w := c.waiting[0]
		c.waiting = c.waiting[1:]
		if err := c.complete(w.plan, w.path); err != nil {
			return err
		}
	}
	return nil
}

// shell returns the plan of t, which may be incomplete.
func (c *compiler) shell(t reflect.Type) *plan {
	p, ok := c.plans[t]
	if !ok {
		p = &plan{typ: t, kind: kindUnknown, size: t.Size(), align: uint8(t.Align())}
		c.plans[t] = p
	}
	return p
}

// refuse makes the error for the field at path.
func (c *compiler) refuse(path, format string, args ...any) error {
	if path == "" {
		path = "(the type itself)"
	}
	return &UnsupportedError{Type: c.root, Path: path, Reason: fmt.Sprintf(format, args...)}
}

// plan returns the complete plan of t. The path says where t stands in the root type.
func (c *compiler) plan(t reflect.Type, path string) (*plan, error) {
	p := c.shell(t)
	return p, c.complete(p, path)
}

// complete fills in p if it is incomplete, and checks that values of its type have the memory
// layout that p describes.
func (c *compiler) complete(p *plan, path string) error {
	if p.kind != kindUnknown {
		return nil
	}
	if err := c.fill(p, path); err != nil {
		return err
	}
	if reason := c.layout.mismatch(p); reason != "" {
		return c.refuse(path, "%s", reason)
	}
	return nil
}

// fill fills in p. The path says where its type stands in the root type.
func (c *compiler) fill(p *plan, path string) error {
	t := p.typ
	if _, ok := c.layout.mirrors[t]; ok && !c.layout.mirrored(t) {
		return c.refuse(path, "the memory layout of %v is not the known one", t)
	}
	if c.special(p, t) {
		return nil
	}
	if k, ok := scalarKind(t); ok {
		p.kind, p.noscan = k, k != kindString
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		c.refer(p, kindPointer, path)
		return nil
	case reflect.Slice:
		return c.slice(p, t, path)
	case reflect.Array:
		elem, err := c.plan(t.Elem(), path)
		p.kind, p.elem, p.count, p.noscan = kindArray, elem, t.Len(), elem.noscan
		return err
	case reflect.Map:
		return c.mapping(p, t, path)
	case reflect.Struct:
		fields, err := c.fields(t, path)
		p.kind, p.fields = kindStruct, groupFields(fields)
		p.shared, p.noscan = t.Size() >= sharedSize, allNoscan(fields)
		return err
	case reflect.Interface:
		return c.refuse(path, "%v is an interface: what it holds is unknown", t)
	default:
		return c.refuse(path, "values of kind %v cannot be copied", t.Kind())
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

// special fills in p and returns true if t is a type with an encoding of its own.
func (c *compiler) special(p *plan, t reflect.Type) bool {
	switch t {
	case typeTime:
		p.kind = kindTime
	case typeQuantity:
		p.kind = kindQuantity
	case typeRawExtension:
		p.kind = kindRawExtension
	case typeHandle:
		p.kind = kindHandle
	case typeAny:
		p.kind = kindContent
	case typeContentMap:
		p.kind = kindContentMap
	default:
		return false
	}
	return true
}

// scalarKind returns the kind of t if t is a boolean, a number or a string.
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

// refer makes p a plan of kind k for a type with elements, and lets the plan of the elements wait.
func (c *compiler) refer(p *plan, k kind, path string) {
	p.kind, p.elem = k, c.shell(p.typ.Elem())
	c.waiting = append(c.waiting, waitingPlan{p.elem, path})
	if k != kindMap && k != kindQuantityMap {
		c.pointees = append(c.pointees, p.elem)
	}
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
	c.refer(p, kindSlice, path)
	return nil
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
	case key.kind == kindString && t.Elem().Kind() == reflect.String:
		p.kind = kindStringMap
	case key.kind == kindString && t.Elem() == typeQuantity:
		c.refer(p, kindQuantityMap, path)
	case key.kind == kindString && t.Elem() == typeAny:
		p.kind = kindContentMap
	default:
		c.refer(p, kindMap, path)
	}
	return nil
}

// fields lists the fields of a struct. A small struct inside it is replaced by its own fields.
func (c *compiler) fields(t reflect.Type, path string) ([]field, error) {
	var out []field
	for _, i := range fieldOrder(t) {
		fields, err := c.single(t, t.Field(i), path)
		if err != nil {
			return nil, err
		}
		out = append(out, fields...)
	}
	return slices.Clone(out), nil // without the room that growing has left
}

// single lists the fields that stand for the one field f of t: f itself, or the fields of a small
// struct.
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
// written first. An embedded struct is replaced by its fields whatever its size, because the
// ObjectMeta may be inside it.
func (c *compiler) rootFields(t reflect.Type, path string, base, skip uintptr) ([]field, error) {
	var out []field
	for i := range t.NumField() {
		f := t.Field(i)
		offset := base + f.Offset
		switch {
		case f.Type == typeObjectMeta && offset == skip:
			continue
		case f.Anonymous && f.Type.Kind() == reflect.Struct && f.Type != typeObjectMeta && !isSpecial(f.Type):
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
				out = append(out, g.shift(base))
			}
		}
	}
	return out, nil
}

// isSpecial says whether t is a struct with an encoding of its own.
func isSpecial(t reflect.Type) bool {
	return t == typeTime || t == typeQuantity || t == typeRawExtension
}

// spread returns the fields that stand for a field of plan p at offset.
func spread(p *plan, offset uintptr) []field {
	if p.kind != kindStruct {
		return []field{newField(p, offset)}
	}
	if len(p.fields.groups) == 0 {
		return nil
	}
	if len(p.fields.groups) > 1 || len(p.fields.groups[0].fields) > inlineFields {
		return []field{newField(p, offset)}
	}
	var out []field
	for _, f := range p.fields.groups[0].fields {
		out = append(out, f.shift(offset))
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
