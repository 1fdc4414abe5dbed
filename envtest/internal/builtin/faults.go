// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// faults collects what is wrong with an object. The zero value has nothing.
type faults struct{ list field.ErrorList }

// add takes what another rule found.
func (f *faults) add(errs field.ErrorList) { f.list = append(f.list, errs...) }

// need reports a value that must be given.
func (f *faults) need(given bool, at *field.Path) {
	if !given {
		f.list = append(f.list, field.Required(at, ""))
	}
}

// text reports a text that must be given, and reports whether it is.
func (f *faults) text(value string, at *field.Path) bool {
	f.need(value != "", at)
	return value != ""
}

// invalid reports a value that is wrong.
func (f *faults) invalid(wrong bool, at *field.Path, value any, why string) {
	if wrong {
		f.list = append(f.list, field.Invalid(at, value, why))
	}
}

// forbid reports what must not be given.
func (f *faults) forbid(given bool, at *field.Path, why string) {
	if given {
		f.list = append(f.list, field.Forbidden(at, why))
	}
}

// messages reports what a rule of apimachinery says about a value.
func (f *faults) messages(messages []string, value any, at *field.Path) {
	f.list = append(f.list, invalidIf(messages, value, at)...)
}

// within reports a number that is out of bounds.
func (f *faults) within(value, lowest, highest int64, at *field.Path) {
	f.invalid(value < lowest || value > highest, at, value, validation.InclusiveRangeError(int(lowest), int(highest)))
}

// notNegative reports a number below zero.
func (f *faults) notNegative(value int64, at *field.Path) {
	f.invalid(value < 0, at, value, "must be greater than or equal to 0")
}

// positive reports a number that is not above zero.
func (f *faults) positive(value int64, at *field.Path) {
	f.invalid(value <= 0, at, value, "must be greater than zero")
}

// label reports what is no DNS label.
func (f *faults) label(value string, at *field.Path) {
	f.messages(validation.IsDNS1123Label(value), value, at)
}

// subdomain reports what is no DNS subdomain.
func (f *faults) subdomain(value string, at *field.Path) {
	f.messages(validation.IsDNS1123Subdomain(value), value, at)
}

// unique reports a value that seen has, and adds it otherwise.
func (f *faults) unique(value string, seen sets.Set[string], at *field.Path) {
	if seen.Has(value) {
		f.list = append(f.list, field.Duplicate(at, value))
	}
	seen.Insert(value)
}

// known reports an enumerated value that is none of those.
func known[T ~string](f *faults, value T, at *field.Path, values ...T) {
	f.add(oneOf(value, at, values...))
}

// choice is an enumerated value that must be given.
func choice[T ~string](f *faults, value T, at *field.Path, values ...T) {
	if value == "" {
		f.need(false, at)
		return
	}
	f.add(oneOf(value, at, values...))
}

// chosen checks an optional enumerated value.
func chosen[T ~string](f *faults, value *T, at *field.Path, values ...T) {
	if value != nil {
		f.add(oneOf(*value, at, values...))
	}
}

// alternative is one member of a set of fields of which exactly one must be given.
type alternative struct {
	name  string
	given bool
	check func(at *field.Path) // nil if there is nothing to check
	at    string               // where check reports, if it is not name
	// beside is set where a kube-apiserver lets this one stand beside others, by oversight.
	beside bool
}

// exactlyOne checks the first alternative that is given, refuses further ones, and asks for one if there is none.
func (f *faults) exactlyOne(at *field.Path, more, none string, all []alternative) {
	found := false
	for _, a := range all {
		switch {
		case !a.given:
		case found && !a.beside:
			f.forbid(true, at.Child(a.name), more)
		default:
			found = true
			if a.at == "" {
				a.at = a.name
			}
			if a.check != nil {
				a.check(at.Child(a.at))
			}
		}
	}
	if !found {
		f.list = append(f.list, field.Required(at, none))
	}
}
