// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"fmt"
	"reflect"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/flat"
	"github.com/tarn-dev/tarn/internal/flat/dictionary"
)

// Options configure a [Form].
type Options struct {
	// Type is the Go type of the objects: a pointer to a struct that is a
	// runtime.Object.
	Type reflect.Type
	// Decoded keeps the objects decoded even if they have a flat form.
	Decoded bool
	// Verify compares each flat object with its source, and panics if they differ. It is for tests.
	// See also VerifyAll.
	Verify bool
	// FieldFailed, if it is set, is called when the function of a declared field panics for an object,
	// with what it panicked with, before the panic is reported. It may be called for several objects
	// at once.
	FieldFailed func(obj client.Object, reason any)
}

// verifyAll is set by VerifyAll.
var verifyAll atomic.Bool

// VerifyAll sets Options.Verify for every [Form] that is made from now on. It is for test
// environments, whose caches are made by the code under test.
func VerifyAll() { verifyAll.Store(true) }

// Form makes the Objects of one store, and turns them back into Kubernetes objects. It is safe for
// concurrent use, with the exceptions that Declare, Undeclare and Renew name.
type Form struct {
	typ    reflect.Type
	codec  *flat.Codec // nil if the objects are kept decoded
	reason error       // why a type that could have been flat is not
	verify bool
	dict   atomic.Pointer[dictionary.Dictionary] // nil before the first object is kept flat
	fields atomic.Pointer[[]*declared]           // in the order in which they were declared
	failed func(client.Object, any)              // Options.FieldFailed
	shared shared
}

// NewForm returns the form for one store.
func NewForm(o Options) *Form {
	f := &Form{typ: o.Type, verify: o.Verify || verifyAll.Load(), failed: o.FieldFailed}
	f.fields.Store(&[]*declared{})
	f.shared.report(Sharing{})
	if o.Decoded {
		return f
	}
	f.codec, f.reason = codecFor(o.Type)
	return f
}

// dictionary returns the dictionary of objects that are kept now. The first object that is kept makes it: many stores have none.
func (f *Form) dictionary() *dictionary.Dictionary {
	if dict := f.dict.Load(); dict != nil {
		return dict
	}
	if first := dictionary.New(dictionary.Limits{}); f.dict.CompareAndSwap(nil, first) {
		f.shared.begin(first)
	}
	return f.dict.Load()
}

// Reason returns why the objects of the store are decoded although Options.Decoded was not set. It
// returns nil if they are flat, or if Options.Decoded was set.
func (f *Form) Reason() error { return f.reason }

// Keep returns obj in the form of the store. Obj must not be changed any more. Whatever the type of
// obj, the metadata of the result is what meta.Accessor returns for obj.
func (f *Form) Keep(obj any) Object {
	kept := f.tell(Object{}, obj)
	if f.codec == nil || reflect.TypeOf(obj) != f.typ || !f.metadataAgree(obj) {
		kept.decoded = obj
		return kept
	}
	encoded, err := f.codec.Encode(obj, f.dictionary())
	if err != nil { // this object cannot be kept flat without loss
		kept.decoded = obj
		return kept
	}
	f.check(obj, encoded)
	kept.flat = encoded
	return kept
}

// KeepMessage is Keep for the object of a protobuf message, as the Unmarshal method of its type reads
// it. Made is that object, which must not be changed, if it is wanted or if a field is declared.
// Otherwise no object is made, and Made is nil. KeepMessage reports false if the message has to be
// read by Unmarshal: because the form keeps objects decoded, or because the message is unusual.
//
// Previous may be nil. For an update it returns the state before, or an earlier one, or the zero
// Object: equal parts are copied from there. It must not keep its arguments.
func (f *Form) KeepMessage(message []byte, wanted bool, previous func(namespace, name string) Object) (kept Object, made any, ok bool) {
	if f.codec == nil {
		return Object{}, nil, false
	}
	var was func(namespace, name string) flat.Object
	var before *Object
	if previous != nil {
		before = new(Object)
		was = func(namespace, name string) flat.Object {
			*before = previous(namespace, name)
			return before.flat
		}
	}
	encoded, err := f.codec.EncodeWireAfter(message, f.dictionary(), was)
	if err != nil {
		return Object{}, nil, false
	}
	f.checkMessage(message, encoded)
	kept.flat, kept.terms, kept.fields = encoded, noTerms, f.fields.Load()
	if !wanted && len(*kept.fields) == 0 {
		return kept, nil, true // Retell knows that no field was declared, even if one is by now
	}
	if made, err = f.Materialize(kept); err != nil {
		return Object{}, nil, false
	}
	if before != nil && before.fields != nil {
		kept.terms = before.terms
	}
	return f.tell(kept, made), made, true
}

// checkMessage is check for the object of a message.
func (f *Form) checkMessage(message []byte, encoded flat.Object) {
	if !f.verify {
		return
	}
	read := reflect.New(f.typ.Elem()).Interface()
	if err := read.(interface{ Unmarshal([]byte) error }).Unmarshal(message); err != nil {
		panic(fmt.Sprintf("%s is kept of a message that it does not read: %v", f.typ, err))
	}
	f.check(read, encoded)
}

// check panics if verification is on and encoded does not hold what obj holds.
func (f *Form) check(obj any, encoded flat.Object) {
	if !f.verify {
		return
	}
	if err := f.codec.Verify(obj, encoded); err != nil {
		panic(fmt.Sprintf("%s is not kept without loss: %v", f.typ, err))
	}
}

// CopyInto overwrites into with a copy of o, which belongs to the caller. If into is a
// *metav1.PartialObjectMetadata and o is of another type, into gets the metadata of o and an empty
// kind. Any other difference of types is an error.
func (f *Form) CopyInto(o Object, into runtime.Object) error {
	if m, ok := into.(*metav1.PartialObjectMetadata); ok && !f.holds(o, into) {
		m.TypeMeta = metav1.TypeMeta{}
		return f.MetadataInto(o, &m.ObjectMeta)
	}
	if !o.IsFlat() {
		return copyDecoded(o.decoded, into)
	}
	if have := f.typ; have != reflect.TypeOf(into) {
		return typeError(have, into)
	}
	return f.decode(o, into)
}

// decode decodes the flat object o into the object that into points to.
func (f *Form) decode(o Object, into any) error {
	if err := f.codec.Decode(o.flat, into); err != nil {
		return err
	}
	ownNames(f.metadata(into))
	return nil
}

// holds reports whether o has the type of like.
func (f *Form) holds(o Object, like any) bool {
	if o.IsFlat() {
		return f.typ == reflect.TypeOf(like)
	}
	return reflect.TypeOf(o.decoded) == reflect.TypeOf(like)
}

// ShareInto overwrites into with a shallow copy of what Shared returns: maps, slices and pointers
// of into must not be changed. If into is a *metav1.PartialObjectMetadata and o is of another type,
// the metadata is copied.
func (f *Form) ShareInto(o Object, into runtime.Object) error {
	if _, ok := into.(*metav1.PartialObjectMetadata); ok && !f.holds(o, into) {
		return f.CopyInto(o, into)
	}
	kept, err := f.Shared(o)
	if err != nil {
		return err
	}
	if reflect.TypeOf(kept) != reflect.TypeOf(into) {
		shared, err := asObject(kept)
		if err != nil {
			return err
		}
		return typeError(reflect.TypeOf(shared), into)
	}
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(kept).Elem())
	return nil
}

// Shared returns the object that reads without a copy share; it must not be changed. For a decoded
// o it is the kept object. For a flat o, the first read decodes an object, and later reads return
// the same one as long as it is read every ten seconds. An object for which the budget has no room,
// and one of an old dictionary, are decoded for each read. See Share.
func (f *Form) Shared(o Object) (any, error) {
	if !o.IsFlat() {
		return o.decoded, nil
	}
	if made, ok := f.shared.find(o.flat); ok {
		return made, nil
	}
	made, err := f.Materialize(o)
	if err != nil {
		return nil, err
	}
	return f.shared.keep(o.flat, made), nil
}

// Materialize returns o as a Kubernetes object. A flat o is decoded, and the result belongs to the
// caller. A decoded o is returned itself and must not be changed.
func (f *Form) Materialize(o Object) (any, error) {
	if !o.IsFlat() {
		return o.decoded, nil
	}
	made := reflect.New(f.typ.Elem()).Interface()
	return made, f.decode(o, made)
}

// MaterializeReusing is Materialize with reuse of a similar object. Like is the object that other
// holds. If both Objects are flat, the result refers to the memory of like wherever the two are
// equal; then neither may be changed.
func (f *Form) MaterializeReusing(o, other Object, like any) (any, error) {
	if !o.IsFlat() || !other.IsFlat() || reflect.TypeOf(like) != f.typ {
		return f.Materialize(o)
	}
	made := reflect.New(f.typ.Elem()).Interface()
	if err := f.codec.DecodeReusing(o.flat, made, other.flat, like); err != nil {
		return nil, err
	}
	f.check(made, o.flat)
	shareNames(f.metadata(made), f.metadata(like))
	return made, nil
}

// Copy returns a copy of o, which belongs to the caller.
func (f *Form) Copy(o Object) (runtime.Object, error) {
	made, err := f.Materialize(o)
	if err != nil {
		return nil, err
	}
	obj, err := asObject(made)
	if err != nil || o.IsFlat() {
		return obj, err
	}
	return obj.DeepCopyObject(), nil
}

// MetadataInto overwrites into with a copy of the metadata of o, which belongs to the caller.
func (f *Form) MetadataInto(o Object, into *metav1.ObjectMeta) error {
	if o.IsFlat() {
		if err := o.flat.DecodeMetadata(into); err != nil {
			return err
		}
		ownNames(into)
		return nil
	}
	m, err := meta.Accessor(o.decoded)
	if err != nil {
		return err
	}
	meta.AsPartialObjectMetadata(m).ObjectMeta.DeepCopyInto(into)
	return nil
}

// DictionaryBytes returns about how many bytes the dictionary takes that objects are kept with now.
func (f *Form) DictionaryBytes() int {
	dict := f.dict.Load()
	if dict == nil {
		return 0
	}
	return dict.Stats().Heap
}

// Stale reports that the store should call Renew, because most of the dictionary is probably used
// only by objects that are gone. Live is the number of objects in the store.
func (f *Form) Stale(live int) bool {
	dict := f.dict.Load()
	return dict != nil && dict.Stale(live)
}

// Renew begins a new dictionary, and returns a function that moves an Object to it. Objects that
// are not moved stay readable. Two calls of Renew must not overlap. If the form keeps objects
// decoded, the function returns its argument.
func (f *Form) Renew() func(Object) Object {
	if worn := f.dict.Load(); worn != nil {
		f.begin(worn.Successor())
	}
	return f.move
}

// begin makes dict the dictionary of objects that are kept from now on.
func (f *Form) begin(dict *dictionary.Dictionary) {
	f.dict.Store(dict)
	f.shared.begin(dict)
}

// move returns o encoded with the newest dictionary. It returns o unchanged if that is not possible
// or not necessary.
func (f *Form) move(o Object) Object {
	dict := f.dict.Load()
	if !o.IsFlat() || o.flat.Dictionary() == dict {
		return o
	}
	if moved, err := f.codec.Reencode(o.flat, dict); err == nil {
		o.flat = moved
	}
	return o
}

// Refresh returns o as Keep would make it now: with the values of all declared fields, and encoded
// with the newest dictionary. An Object of an old dictionary prevents the garbage collection of all
// of that dictionary.
func (f *Form) Refresh(o Object) Object { return f.move(f.Retell(o)) }

func copyDecoded(obj any, into runtime.Object) error {
	source, err := asObject(obj)
	if err != nil {
		return err
	}
	if reflect.TypeOf(obj) != reflect.TypeOf(into) {
		return typeError(reflect.TypeOf(obj), into)
	}
	CopierFor(reflect.TypeOf(obj)).CopyInto(source, reflect.ValueOf(into))
	return nil
}

// asObject returns obj as a runtime.Object. A transform may have replaced the object by something
// else, which is an error.
func asObject(obj any) (runtime.Object, error) {
	if o, ok := obj.(runtime.Object); ok {
		return o, nil
	}
	return nil, fmt.Errorf("the cache holds a %T, which is no runtime.Object; check the transform of this kind", obj)
}

// typeError returns the error for an object of the wrong type, in the words of controller-runtime's
// cache.
func typeError(have reflect.Type, into any) error {
	return fmt.Errorf("cache had type %s, but %T was asked for", have, into)
}
