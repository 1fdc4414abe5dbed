// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

import (
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"unsafe"
)

// root says how objects of one Go type are written and read.
type root struct {
	typ         reflect.Type // of the struct
	pointer     reflect.Type // to it
	flags       byte         // flagMetadata, flagContent
	fingerprint byte         // of the type, to notice Objects of another one
	meta        uintptr      // where its ObjectMeta stands, with flagMetadata alone
	fields      *structPlan  // without the ObjectMeta; nil for unstructured content
	plans       map[reflect.Type]*plan
}

// compiled remembers the outcome of rootOf for each type: a root or an error. Both are immutable
// and depend on the type alone.
var compiled sync.Map // reflect.Type -> func() (*root, error)

// fingerprints counts the roots. It gives each root a fingerprint that differs from those of the
// 255 roots before it.
var fingerprints atomic.Uint32

// rootOf returns the root of t, a struct type or a pointer to one. It is compiled at the first
// call, and the same for all calls. The error is an *UnsupportedError.
func rootOf(t reflect.Type) (*root, error) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if f, ok := compiled.Load(t); ok {
		return f.(func() (*root, error))()
	}
	f, _ := compiled.LoadOrStore(t, sync.OnceValues(func() (*root, error) { return compile(t, &goLayout) }))
	return f.(func() (*root, error))()
}

// compile makes the root of t for a program whose memory layout is l. It refuses a type for which
// l is not known to be right.
func compile(t reflect.Type, l *layout) (*root, error) {
	c := newCompiler(t, l)
	if reason := l.broken(); reason != "" {
		return nil, c.refuse("", "%s", reason)
	}
	metadata, err := compiledMetadata()
	if err != nil {
		return nil, err
	}
	if !l.knowsMetadata(metadata.fields) {
		return nil, c.refuse("", "the first fields of ObjectMeta are not the known ones")
	}
	if t.Kind() != reflect.Struct || isSpecial(t) {
		return nil, c.refuse("", "not an API object: it must be a struct")
	}
	r := &root{typ: t, pointer: reflect.PointerTo(t), fingerprint: byte(fingerprints.Add(1))}
	if t == typeUnstructured {
		if !l.mirrored(t) {
			return nil, c.refuse("", "the memory layout of %v is not the known one", t)
		}
		r.flags = flagMetadata | flagContent
		return r, nil
	}
	if offset, ok := embeddedMetadata(t); ok {
		r.flags, r.meta = flagMetadata, offset
	}
	var fields []field
	if r.flags&flagMetadata != 0 {
		fields, err = c.rootFields(t, "", 0, r.meta)
	} else {
		fields, err = c.fields(t, "")
	}
	if err == nil {
		err = c.finish()
	}
	if err != nil {
		return nil, err
	}
	c.number(metadata.slabs)
	r.fields, r.plans = groupFields(fields), c.plans
	if r.hasSections() {
		r.fields.section()
	}
	return r, nil
}

// hasSections says whether objects of the type may have sections: whether it has a message.
func (r *root) hasSections() bool {
	return r.flags == flagMetadata && r.pointer.Implements(reflect.TypeFor[interface{ Unmarshal(message []byte) error }]())
}

// takePlans returns the plans of all types in the root at the first call, and nil later: they take
// memory, and only the plan of a message needs them.
func (r *root) takePlans() map[reflect.Type]*plan {
	plans := r.plans
	r.plans = nil
	return plans
}

// memory returns where obj, a non-nil pointer to the type, points. The error is ErrWrongType.
func (r *root) memory(obj any) (unsafe.Pointer, error) {
	v := reflect.ValueOf(obj)
	if !v.IsValid() || v.Type() != r.pointer || v.IsNil() {
		return nil, fmt.Errorf("%w: got %T, want a non-nil %v", ErrWrongType, obj, r.pointer)
	}
	return v.UnsafePointer(), nil
}

// compiledMetadata makes the plan of ObjectMeta.
var compiledMetadata = sync.OnceValues(func() (metadataPlans, error) {
	c := newCompiler(typeObjectMeta, &goLayout)
	fields, err := c.fields(typeObjectMeta, "")
	if err == nil {
		err = c.finish()
	}
	return metadataPlans{groupFields(fields), c.number(0), c.plans}, err
})

// metadataPlans is the plan of ObjectMeta, the last number of a slab in it, and the plans of all
// types in it.
type metadataPlans struct {
	fields *structPlan
	slabs  int
	plans  map[reflect.Type]*plan
}

// metadataTypes returns the plans of all types in ObjectMeta.
func metadataTypes() map[reflect.Type]*plan {
	p, _ := compiledMetadata()
	return p.plans
}

// metadataPlan returns the plan by which ObjectMeta is written in every Object. For makes no codec
// unless this plan exists.
func metadataPlan() *structPlan {
	p, _ := compiledMetadata()
	return p.fields
}

// embeddedMetadata returns the offset of the ObjectMeta whose methods are promoted to the struct
// type t: the one that is embedded at the least depth. It reports false if t has none, or if that
// one is behind a pointer. The search is by type, because an alias gives an embedded field another
// name.
func embeddedMetadata(t reflect.Type) (offset uintptr, ok bool) {
	seen := map[reflect.Type]bool{}
	for level := []embedded{{typ: t, direct: true}}; len(level) > 0; {
		var next, found []embedded
		for _, outer := range level {
			for _, inner := range outer.embeds() {
				if inner.typ == typeObjectMeta {
					found = append(found, inner)
				} else if !seen[inner.typ] {
					next = append(next, inner)
				}
			}
		}
		if len(found) > 0 { // of two, neither is promoted
			return found[0].offset, len(found) == 1 && found[0].direct
		}
		for _, inner := range next {
			seen[inner.typ] = true // a type may embed pointers to itself
		}
		level = next
	}
	return 0, false
}

// embedded is a struct that another one embeds.
type embedded struct {
	typ    reflect.Type
	offset uintptr
	direct bool // no pointer leads there
}

// embeds lists the structs that e embeds.
func (e embedded) embeds() (inner []embedded) {
	for i := range e.typ.NumField() {
		f := e.typ.Field(i)
		at := embedded{typ: f.Type, offset: e.offset + f.Offset, direct: e.direct}
		if f.Type.Kind() == reflect.Pointer {
			at.typ, at.direct = f.Type.Elem(), false
		}
		if f.Anonymous && at.typ.Kind() == reflect.Struct {
			inner = append(inner, at)
		}
	}
	return inner
}
