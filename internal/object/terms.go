// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"encoding/binary"
	"sync"
	"unique"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The terms of an object are its values of all declared fields. They are written down when the
// object is kept, because a later extraction would have to decode the object. Objects with the same
// values share one interned string. It contains, for each field in the order of declaration, the
// number of values and then each value after its length.

// Declare adds a field. Objects that were kept before get its values only from Retell. Several
// goroutines may keep objects at the same time; extract is still called for one object at a time.
// Two calls of Declare must not overlap.
func (f *Form) Declare(name string, extract func(client.Object) []string) {
	known := *f.fields.Load()
	fields := append(known[:len(known):len(known)], declared{name: name, extract: inTurn(extract)})
	f.fields.Store(&fields)
}

// inTurn returns a function that calls extract for one object at a time. client-go calls such
// functions with the lock of its store, so they may rely on it.
func inTurn(extract func(client.Object) []string) func(client.Object) []string {
	var mu sync.Mutex
	return func(obj client.Object) []string {
		mu.Lock()
		defer mu.Unlock()
		return extract(obj)
	}
}

// Retell returns o with the values of all fields that are declared now. It returns o unchanged if o
// cannot be decoded.
func (f *Form) Retell(o Object) Object {
	if o.fields == len(*f.fields.Load()) {
		return o
	}
	if obj, err := f.Materialize(o); err == nil {
		return f.tell(o, obj)
	}
	return o
}

// tell returns o with the values of source.
func (f *Form) tell(o Object, source any) Object {
	fields := *f.fields.Load()
	o.fields = len(fields)
	o.terms = noTerms
	obj, ok := source.(client.Object)
	if len(fields) == 0 || !ok {
		return o
	}
	var written []byte
	for _, field := range fields {
		values := f.valuesOf(field, obj)
		written = binary.AppendUvarint(written, uint64(len(values)))
		for _, value := range values {
			written = binary.AppendUvarint(written, uint64(len(value)))
			written = append(written, value...)
		}
	}
	o.terms = unique.Make(string(written))
	return o
}

// valuesOf returns the values that the user's function extracts. A panic of that function is
// reported as client-go reports panics. If utilruntime.ReallyCrash says that the process goes on,
// the object has no values.
func (f *Form) valuesOf(field declared, obj client.Object) []string {
	defer utilruntime.HandleCrash()
	defer func() {
		if r := recover(); r != nil {
			if f.failed != nil {
				f.failed(obj, r)
			}
			panic(r)
		}
	}()
	return field.extract(obj)
}

var noTerms = unique.Make("")

// Values calls yield with each value that o has of the declared field called name.
func (f *Form) Values(o Object, name string, yield func(string)) {
	t := termsOf(o)
	for _, field := range *f.fields.Load() {
		if t == "" {
			return // declared after this object was kept
		}
		for range t.number() {
			if value := t.text(); field.name == name {
				yield(value)
			}
		}
	}
}

// HasValue reports whether value is among the values that o has of the declared field called name.
func (f *Form) HasValue(o Object, name, value string) bool {
	t := termsOf(o)
	for _, field := range *f.fields.Load() {
		if t == "" {
			return false
		}
		for range t.number() {
			if t.text() == value && field.name == name {
				return true
			}
		}
	}
	return false
}

// terms is the part of the values of an object that is not yet read.
type terms string

func termsOf(o Object) terms {
	if o.terms == (unique.Handle[string]{}) {
		return ""
	}
	return terms(o.terms.Value())
}

// number reads a number.
func (t *terms) number() int {
	n, size := binary.Uvarint([]byte((*t)[:min(len(*t), binary.MaxVarintLen64)]))
	*t = (*t)[size:]
	return int(n)
}

// text reads a value.
func (t *terms) text() string {
	n := t.number()
	value := (*t)[:n]
	*t = (*t)[n:]
	return string(value)
}
