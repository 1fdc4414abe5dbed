// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/tarn-dev/tarn/internal/flat/form"
)

// Root says how objects of one Go type are written and read.
type Root struct {
	Type        reflect.Type // of the struct
	pointer     reflect.Type // to it
	Flags       byte         // form.FlagMetadata, form.FlagContent
	Fingerprint byte         // of the type, to notice Objects of another one
	Meta        uintptr      // where its ObjectMeta stands, if it has one
	Fields      *Struct      // without the ObjectMeta; nil for unstructured content
	plans       map[reflect.Type]*Plan
	blocks      blocksOf
}

// compiled remembers the outcome of For for each type: a root or an error. Both are immutable
// and depend on the type alone.
var compiled sync.Map // reflect.Type -> func() (*Root, error)

// fingerprints counts the roots. It gives each root a fingerprint that differs from those of the
// 255 roots before it.
var fingerprints atomic.Uint32

// For returns the root of t, a struct type or a pointer to one. It is compiled at the first
// call, and the same for all calls. The error is an *UnsupportedError.
func For(t reflect.Type) (*Root, error) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if f, ok := compiled.Load(t); ok {
		return f.(func() (*Root, error))()
	}
	f, _ := compiled.LoadOrStore(t, sync.OnceValues(func() (*Root, error) { return compile(t, &goLayout) }))
	return f.(func() (*Root, error))()
}

// compile makes the root of t for a program whose memory layout is l. It refuses a type for which
// l is not known to be right.
func compile(t reflect.Type, l *layout) (*Root, error) {
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
	r := &Root{Type: t, pointer: reflect.PointerTo(t), Fingerprint: byte(fingerprints.Add(1))}
	if t == typeUnstructured {
		if !l.mirrored(t) {
			return nil, c.refuse("", "the memory layout of %v is not the known one", t)
		}
		r.Flags = form.FlagMetadata | form.FlagContent
		return r, nil
	}
	if offset, ok := embeddedMetadata(t); ok {
		r.Flags, r.Meta = form.FlagMetadata, offset
	}
	var fields []Field
	if r.HasMetadata() {
		fields, err = c.rootFields(t, "", 0, r.Meta)
	} else {
		fields, err = c.fields(t, "")
	}
	if err == nil {
		err = c.finish()
	}
	if err != nil {
		return nil, err
	}
	r.blocks.plans = c.number(metadata.slabs)
	r.Fields, r.plans = groupFields(fields), c.plans
	if r.hasSections() {
		r.Fields.section()
	}
	return r, nil
}

// HasMetadata says whether the type embeds an ObjectMeta by value, which stands at Meta.
func (r *Root) HasMetadata() bool { return r.Flags == form.FlagMetadata }

// IsContent says whether the type is the type of unstructured content.
func (r *Root) IsContent() bool { return r.Flags&form.FlagContent != 0 }

// hasSections says whether objects of the type may have sections: whether it has a message.
func (r *Root) hasSections() bool {
	return r.HasMetadata() && r.pointer.Implements(reflect.TypeFor[interface{ Unmarshal(message []byte) error }]())
}

// TakePlans returns the plans of all types in the Root at the first call, and nil later: they take
// memory, and only the plan of a message needs them. It is for one caller, package wire.
func (r *Root) TakePlans() map[reflect.Type]*Plan {
	plans := r.plans
	r.plans = nil
	return plans
}

// Memory returns where obj, a non-nil pointer to the type, points. The error is ErrWrongType.
func (r *Root) Memory(obj any) (unsafe.Pointer, error) {
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
	return metadataPlans{groupFields(fields), c.number([]*Plan{nil}), c.plans}, err
})

// metadataPlans is the plan of ObjectMeta, those of its slabs by their numbers, and the plans of all
// types in it.
type metadataPlans struct {
	fields *Struct
	slabs  []*Plan
	plans  map[reflect.Type]*Plan
}

// MetadataTypes returns the plans of all types in ObjectMeta.
func MetadataTypes() map[reflect.Type]*Plan {
	p, _ := compiledMetadata()
	return p.plans
}

// Metadata returns the plan by which ObjectMeta is written in every Object. For returns no Root
// unless this plan exists.
func Metadata() *Struct {
	p, _ := compiledMetadata()
	return p.fields
}
