// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

import (
	"fmt"
	"hash/maphash"
	"reflect"
	"sync"
	"sync/atomic"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tarn-dev/tarn/internal/flat/dictionary"
)

// Codec writes and reads the flat form of one Go type. It is safe for concurrent use.
type Codec struct {
	typ         reflect.Type // of the struct
	pointer     reflect.Type // to it
	flags       byte
	fingerprint byte // of the type, to notice Objects of another one
	meta        uintptr
	fields      *structPlan
	encoders    sync.Pool // of *encoder

	wire         func() (*wirePlan, error) // made at the first call
	wireEncoders sync.Pool                 // of *wireEncoder; only if there is a wire plan
}

// compiled remembers the outcome of For for each type: a Codec or an error. Both are immutable
// and depend on the type alone.
var compiled sync.Map // reflect.Type -> func() (*Codec, error)

// fingerprints counts the codecs. It gives each codec a fingerprint that differs from those of the
// 255 codecs before it.
var fingerprints atomic.Uint32

// For returns the codec of t, a struct type or a pointer to one. It is compiled at the first
// call. The error is an *UnsupportedError if objects of the type cannot be kept without loss.
func For(t reflect.Type) (*Codec, error) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if f, ok := compiled.Load(t); ok {
		return f.(func() (*Codec, error))()
	}
	f, _ := compiled.LoadOrStore(t, sync.OnceValues(func() (*Codec, error) { return compile(t, &goLayout) }))
	return f.(func() (*Codec, error))()
}

// compile makes the codec of t for a program whose memory layout is l. It refuses a type for which
// l is not known to be right.
func compile(t reflect.Type, l *layout) (*Codec, error) {
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
	codec := &Codec{typ: t, pointer: reflect.PointerTo(t), fingerprint: byte(fingerprints.Add(1))}
	codec.encoders.New = func() any { return newEncoder(codec) }
	codec.wireEncoders.New = func() any {
		p, _ := codec.wire() // whoever takes an encoder has looked at the error
		return newWireEncoder(codec, p)
	}
	if t == typeUnstructured {
		if !l.mirrored(t) {
			return nil, c.refuse("", "the memory layout of %v is not the known one", t)
		}
		codec.flags = flagMetadata | flagContent
		codec.wire = func() (*wirePlan, error) { return nil, errNoMessage }
		return codec, nil
	}
	if offset, ok := embeddedMetadata(t); ok {
		codec.flags, codec.meta = flagMetadata, offset
	}
	var fields []field
	if codec.flags&flagMetadata != 0 {
		fields, err = c.rootFields(t, "", 0, codec.meta)
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
	codec.fields = groupFields(fields)
	if codec.flags == flagMetadata && codec.pointer.Implements(typeUnmarshaler) {
		codec.fields.section()
	}
	codec.wire = sync.OnceValues(func() (*wirePlan, error) { return compileWire(codec, c.plans) })
	return codec, nil
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

// seed returns the seed of hashes that are used within this process only.
var seed = sync.OnceValue(maphash.MakeSeed)

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

// metadataPlan returns the plan by which ObjectMeta is written in every Object. For makes no codec
// unless this plan exists.
func metadataPlan() *structPlan {
	p, _ := compiledMetadata()
	return p.fields
}

// Type returns the struct type whose objects this codec writes and reads.
func (c *Codec) Type() reflect.Type { return c.typ }

// Metadata returns the ObjectMeta inside obj, a non-nil pointer to the codec's type: the one that
// Encode writes as the metadata of obj. It returns nil if the type does not embed an ObjectMeta by
// value, and for unstructured content, whose metadata is available through the methods of the
// object.
func (c *Codec) Metadata(obj any) *metav1.ObjectMeta {
	p, err := c.memory(obj)
	if err != nil || c.flags != flagMetadata {
		return nil
	}
	return (*metav1.ObjectMeta)(unsafe.Add(p, c.meta))
}

// Encode returns the flat form of obj, a non-nil pointer to the codec's type. It keeps no reference
// to obj. Strings that several objects share enter dict. A nil dict is allowed: the Object then
// contains all its strings itself and is larger.
//
// The error is a *ValueError if obj holds a value that the codec cannot keep without loss.
func (c *Codec) Encode(obj any, dict *dictionary.Dictionary) (Object, error) {
	p, err := c.memory(obj)
	if err != nil {
		return Object{}, err
	}
	e := c.encoders.Get().(*encoder)
	defer c.encoders.Put(e)
	return e.object(p, dict)
}

// Decode overwrites into, a non-nil pointer to the codec's type, with the object that was encoded.
// The result shares no memory with the Object or with other callers, except strings, which are
// immutable. The package comment says how much memory a kept string keeps.
//
// The error is ErrWrongType or ErrCorrupt; into is then in an undefined but valid state.
func (c *Codec) Decode(o Object, into any) error {
	return c.decode(o, into, true)
}

// decode is Decode, with values in slabs or singly.
func (c *Codec) decode(o Object, into any, inSlabs bool) error {
	p, err := c.memory(into)
	if err != nil {
		return err
	}
	var d decoder
	if !d.open(o) || d.flags != c.flags || d.fingerprint != c.fingerprint {
		return c.wrong(o)
	}
	if c.flags&flagContent != 0 {
		u := (*unstructured.Unstructured)(p)
		u.Object = nil
		d.skipHead()
		d.document(&u.Object)
		return d.finish()
	}
	var slabs slabTable
	if inSlabs {
		slabs.fill(d.counts)
		d.slabs = &slabs
	}
	reflect.ValueOf(into).Elem().SetZero()
	if c.flags&flagMetadata != 0 {
		d.structure(metadataPlan(), unsafe.Add(p, c.meta))
	}
	d.structure(c.fields, p)
	return d.finish()
}

// Reencode returns o encoded with dict. It serves to move o from one dictionary to another. Errors
// are those of Decode and Encode.
func (c *Codec) Reencode(o Object, dict *dictionary.Dictionary) (Object, error) {
	obj := reflect.New(c.typ).Interface()
	if err := c.Decode(o, obj); err != nil {
		return Object{}, err
	}
	return c.Encode(obj, dict)
}

// memory returns where obj, a pointer to the codec's type, points.
func (c *Codec) memory(obj any) (unsafe.Pointer, error) {
	v := reflect.ValueOf(obj)
	if !v.IsValid() || v.Type() != c.pointer || v.IsNil() {
		return nil, fmt.Errorf("%w: got %T, want a non-nil %v", ErrWrongType, obj, c.pointer)
	}
	return v.UnsafePointer(), nil
}

// wrong returns the error for an Object that does not fit to the codec: ErrWrongType, or ErrCorrupt
// if its header is incomplete.
func (c *Codec) wrong(o Object) error {
	if len(o.data) < headerSize {
		return ErrCorrupt
	}
	return fmt.Errorf("%w: the object is not a flat %v", ErrWrongType, c.typ)
}
