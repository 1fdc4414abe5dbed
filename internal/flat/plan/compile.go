// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"reflect"
	"slices"
	"sort"
)

const (
	// inlineFields is the number of fields up to which a struct inside a struct has no bitmap of
	// its own and uses the bitmap of the outer struct: bits are cheaper than another level.
	inlineFields = 8
	// sharedSize is the size in bytes from which a struct may enter the dictionary as a whole.
	sharedSize = 48
)

// compiler makes the plans of one root type. A struct needs the complete plans of the values that
// it contains, which cannot be recursive. The plans of types behind pointers, slices and maps can
// be recursive; they wait until the struct is complete.
type compiler struct {
	root    reflect.Type
	layout  *layout
	plans   map[reflect.Type]*Plan
	waiting []waitingPlan
	// pointees are the plans of the elements of pointers and slices, in the order in which the
	// compiler found them.
	pointees []*Plan
}

// waitingPlan is an incomplete plan to which another plan refers, and the path at which it does.
type waitingPlan struct {
	plan *Plan
	path string
}

// newCompiler returns a compiler for root. The layout l says what memory must look like.
func newCompiler(root reflect.Type, l *layout) *compiler {
	return &compiler{root: root, layout: l, plans: map[reflect.Type]*Plan{}}
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
func (c *compiler) shell(t reflect.Type) *Plan {
	p, ok := c.plans[t]
	if !ok {
		p = &Plan{Type: t, Kind: kindUnknown, Size: t.Size(), Align: uint8(t.Align())}
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
func (c *compiler) plan(t reflect.Type, path string) (*Plan, error) {
	p := c.shell(t)
	return p, c.complete(p, path)
}

// complete fills in p if it is incomplete, and checks that values of its type have the memory
// layout that p describes.
func (c *compiler) complete(p *Plan, path string) error {
	if p.Kind != kindUnknown {
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
func (c *compiler) fill(p *Plan, path string) error {
	t := p.Type
	if _, ok := c.layout.mirrors[t]; ok && !c.layout.mirrored(t) {
		return c.refuse(path, "the memory layout of %v is not the known one", t)
	}
	if c.special(p, t) {
		return nil
	}
	if k, ok := scalarKind(t); ok {
		p.Kind, p.Noscan = k, k != KindString
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		c.refer(p, KindPointer, path)
		return nil
	case reflect.Slice:
		return c.slice(p, t, path)
	case reflect.Array:
		elem, err := c.plan(t.Elem(), path)
		p.Kind, p.Elem, p.Count, p.Noscan = KindArray, elem, t.Len(), elem.Noscan
		return err
	case reflect.Map:
		return c.mapping(p, t, path)
	case reflect.Struct:
		fields, err := c.fields(t, path)
		p.Kind, p.Fields = KindStruct, groupFields(fields)
		p.Shared, p.Noscan = t.Size() >= sharedSize, allNoscan(fields)
		return err
	case reflect.Interface:
		return c.refuse(path, "%v is an interface: what it holds is unknown", t)
	default:
		return c.refuse(path, "values of kind %v cannot be copied", t.Kind())
	}
}

// allNoscan says whether no field holds a pointer.
func allNoscan(fields []Field) bool {
	for _, f := range fields {
		if !f.Plan.Noscan {
			return false
		}
	}
	return true
}

// special fills in p and returns true if t is a type with an encoding of its own.
func (c *compiler) special(p *Plan, t reflect.Type) bool {
	switch t {
	case typeTime:
		p.Kind = KindTime
	case typeQuantity:
		p.Kind = KindQuantity
	case typeRawExtension:
		p.Kind = KindRawExtension
	case typeHandle:
		p.Kind = KindHandle
	case typeAny:
		p.Kind = KindContent
	case typeContentMap:
		p.Kind = KindContentMap
	default:
		return false
	}
	return true
}

// scalarKind returns the kind of t if t is a boolean, a number or a string.
func scalarKind(t reflect.Type) (Kind, bool) {
	switch t.Kind() {
	case reflect.Bool:
		return KindBool, true
	case reflect.Int, reflect.Int64:
		return map[uintptr]Kind{4: KindInt32, 8: KindInt64}[t.Size()], true
	case reflect.Int8:
		return KindInt8, true
	case reflect.Int16:
		return KindInt16, true
	case reflect.Int32:
		return KindInt32, true
	case reflect.Uint, reflect.Uint64:
		return map[uintptr]Kind{4: KindUint32, 8: KindUint64}[t.Size()], true
	case reflect.Uint8:
		return KindUint8, true
	case reflect.Uint16:
		return KindUint16, true
	case reflect.Uint32:
		return KindUint32, true
	case reflect.Float32:
		return KindFloat32, true
	case reflect.Float64:
		return KindFloat64, true
	case reflect.String:
		return KindString, true
	default:
		return 0, false
	}
}

// refer makes p a plan of kind k for a type with elements, and lets the plan of the elements wait.
func (c *compiler) refer(p *Plan, k Kind, path string) {
	p.Kind, p.Elem = k, c.shell(p.Type.Elem())
	c.waiting = append(c.waiting, waitingPlan{p.Elem, path})
	if k != KindMap && k != KindQuantityMap {
		c.pointees = append(c.pointees, p.Elem)
	}
}

// slice fills in p for a slice type.
func (c *compiler) slice(p *Plan, t reflect.Type, path string) error {
	if k := t.Elem().Kind(); k == reflect.Uint8 || k == reflect.Int8 {
		p.Kind = KindBytes
		return nil
	}
	if t.Elem().Size() == 0 {
		return c.refuse(path, "elements without size cannot be counted in bytes")
	}
	c.refer(p, KindSlice, path)
	return nil
}

// mapping fills in p for a map type.
func (c *compiler) mapping(p *Plan, t reflect.Type, path string) error {
	key, err := c.plan(t.Key(), path)
	if err != nil {
		return err
	}
	p.Key = key
	switch {
	case key.Kind > KindUint64 && key.Kind != KindString:
		return c.refuse(path, "map keys of type %v have no order", t.Key())
	case key.Kind == KindString && t.Elem().Kind() == reflect.String:
		p.Kind = KindStringMap
	case key.Kind == KindString && t.Elem() == typeQuantity:
		c.refer(p, KindQuantityMap, path)
	case key.Kind == KindString && t.Elem() == typeAny:
		p.Kind = KindContentMap
	default:
		c.refer(p, KindMap, path)
	}
	return nil
}

// fields lists the fields of a struct. A small struct inside it is replaced by its own fields.
func (c *compiler) fields(t reflect.Type, path string) ([]Field, error) {
	var out []Field
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
func (c *compiler) single(t reflect.Type, f reflect.StructField, path string) ([]Field, error) {
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
func (c *compiler) rootFields(t reflect.Type, path string, base, skip uintptr) ([]Field, error) {
	var out []Field
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
func spread(p *Plan, offset uintptr) []Field {
	if p.Kind != KindStruct {
		return []Field{newField(p, offset)}
	}
	if len(p.Fields.Groups) == 0 {
		return nil
	}
	if len(p.Fields.Groups) > 1 || len(p.Fields.Groups[0].Fields) > inlineFields {
		return []Field{newField(p, offset)}
	}
	var out []Field
	for _, f := range p.Fields.Groups[0].Fields {
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
			return rank(t.Field(order[a]).Name) < rank(t.Field(order[b]).Name)
		})
	}
	return order
}

// rank returns where the field of ObjectMeta with that name stands among the others.
func rank(name string) int {
	if i := slices.Index(firstMetadata, name); i >= 0 {
		return i
	}
	return len(firstMetadata)
}

const (
	// SlabTypes is the largest number of a type whose values share slabs, see package form. Values of
	// further types are allocated singly.
	SlabTypes = 255
	// slabLimit is the largest size in bytes of such a value, so that a slab stays small.
	slabLimit = 1 << 10
)

// number numbers the types of the pointees for their slabs, beginning with the length of numbered. It returns these
// with their plans behind numbered. A pointer-free type gets no number, because its values are carved from a chunk.
func (c *compiler) number(numbered []*Plan) []*Plan {
	numbered = slices.Clip(numbered)
	for _, p := range c.pointees {
		if p.Slab == 0 && p.Kind != KindString && !p.Noscan && p.Size <= slabLimit && len(numbered) <= SlabTypes {
			p.Slab = uint8(len(numbered))
			numbered = append(numbered, p)
		}
	}
	return numbered
}
