// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"encoding/binary"
	"slices"
	"sync"
	"unique"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The terms of an object are its values of all declared fields. They are written down when the
// object is kept, because a later extraction would have to decode the object. Objects with the same
// values share one interned string. It contains, for each field in the order of declaration, the
// number of values and then each value after its length. An object refers to the fields that its terms are
// of, so fields may come and go.

// declared is a field whose values are written down for each object, so that an index can find the
// object.
type declared struct {
	name    string
	view    *View                        // extract gets what it makes of the object; nil is the object as it is kept
	extract func(client.Object) []string // nil tells which objects the view cannot show: these have an empty value
}

// Declare adds a field. Objects that were kept before get its values only from Retell. Several
// goroutines may keep objects at the same time; extract is still called for one object at a time.
// Two calls of Declare or Undeclare must not overlap.
func (f *Form) Declare(name string, extract func(client.Object) []string) {
	f.declare(&declared{name: name, extract: inTurn(extract)})
}

// Declare does as Form.Declare does, for a field of the objects as the view shows them. An object that the view
// cannot show has no values.
func (v *View) Declare(name string, extract func(client.Object) []string) {
	v.form.declare(&declared{name: name, view: v, extract: inTurn(extract)})
}

// DeclareUnfit adds a field, unless there is one with that name. An object has one value of it, which is empty,
// if the view cannot show the object, and otherwise none.
func (v *View) DeclareUnfit(name string) {
	if !slices.ContainsFunc(*v.form.fields.Load(), func(d *declared) bool { return d.name == name }) {
		v.form.declare(&declared{name: name, view: v})
	}
}

func (f *Form) declare(d *declared) {
	known := *f.fields.Load()
	fields := append(known[:len(known):len(known)], d)
	f.fields.Store(&fields)
}

// Undeclare removes the fields with these names: their functions are called no more, except for an object that
// is being kept. Objects that were kept before have their values until Retell.
func (f *Form) Undeclare(names ...string) {
	left := slices.DeleteFunc(slices.Clone(*f.fields.Load()), func(d *declared) bool { return slices.Contains(names, d.name) })
	f.fields.Store(&left)
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

// Retell returns o with the values of all fields that are declared now. The terms of o are copied. It returns o
// unchanged if it lacks some and cannot be decoded.
func (f *Form) Retell(o Object) Object {
	fields := f.fields.Load()
	if o.fields == fields {
		return o
	}
	known := o.told()
	var source any
	for _, d := range *fields {
		if _, ok := known[d]; !ok {
			var err error
			if source, err = f.Materialize(o); err != nil {
				return o
			}
			break
		}
	}
	return f.tellOf(o, fields, source, known)
}

// tell returns o with the values of source. It is quick if o has the values already, as in most updates.
func (f *Form) tell(o Object, source any) Object { return f.tellOf(o, f.fields.Load(), source, nil) }

// tellOf returns o with the values of fields: the known ones, and the others from source.
func (f *Form) tellOf(o Object, fields *[]*declared, source any, known map[*declared]terms) Object {
	before := termsOf(o)
	if o.fields = fields; len(*fields) == 0 {
		o.terms = noTerms
		return o
	}
	var shown shown
	written := make([]byte, 0, 64)
	for _, d := range *fields {
		if told, ok := known[d]; ok {
			written = append(written, told...)
			continue
		}
		values := f.valuesOf(d, shown.as(d.view, source))
		written = binary.AppendUvarint(written, uint64(len(values)))
		for _, value := range values {
			written = binary.AppendUvarint(written, uint64(len(value)))
			written = append(written, value...)
		}
	}
	if string(before) != string(written) { // to compare takes less than to look for what is there
		o.terms = unique.Make(string(written))
	}
	return o
}

// shown is an object as a view has shown it, for all fields of the view.
type shown struct {
	view *View
	obj  client.Object
}

// as returns source as a view shows it, or nil if it cannot.
func (s *shown) as(view *View, source any) client.Object {
	if view == nil {
		obj, _ := source.(client.Object)
		return obj
	}
	if s.view != view {
		made, err := view.Of(source)
		if s.view, s.obj = view, nil; err == nil {
			s.obj, _ = made.(client.Object)
		}
	}
	return s.obj
}

// valuesOf returns the values that the user's function extracts. A panic of that function is
// reported as client-go reports panics. If utilruntime.ReallyCrash says that the process goes on,
// the object has no values.
func (f *Form) valuesOf(field *declared, obj client.Object) []string {
	switch {
	case obj == nil && field.extract == nil:
		return []string{""}
	case obj == nil || field.extract == nil:
		return nil
	}
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
	if t == "" {
		return
	}
	for _, field := range *o.fields {
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
	if t == "" {
		return false
	}
	for _, field := range *o.fields {
		for range t.number() {
			if t.text() == value && field.name == name {
				return true
			}
		}
	}
	return false
}

// told returns the terms of each field that o has.
func (o Object) told() map[*declared]terms {
	t := termsOf(o)
	if t == "" {
		return nil
	}
	known := make(map[*declared]terms, len(*o.fields))
	for _, field := range *o.fields {
		before := t
		for range t.number() {
			t.text()
		}
		known[field] = before[:len(before)-len(t)]
	}
	return known
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
