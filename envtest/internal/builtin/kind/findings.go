// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Findings collects what is wrong with an object. The zero value has nothing.
type Findings struct{ List field.ErrorList }

// Add takes what another rule found.
func (f *Findings) Add(errs field.ErrorList) { f.List = append(f.List, errs...) }

// Need reports a value that must be given.
func (f *Findings) Need(given bool, at *field.Path) {
	if !given {
		f.List = append(f.List, field.Required(at, ""))
	}
}

// Text reports a text that must be given, and reports whether it is.
func (f *Findings) Text(value string, at *field.Path) bool {
	f.Need(value != "", at)
	return value != ""
}

// Invalid reports a value that is wrong.
func (f *Findings) Invalid(wrong bool, at *field.Path, value any, why string) {
	if wrong {
		f.List = append(f.List, field.Invalid(at, value, why))
	}
}

// Forbid reports what must not be given.
func (f *Findings) Forbid(given bool, at *field.Path, why string) {
	if given {
		f.List = append(f.List, field.Forbidden(at, why))
	}
}

// Messages reports what a rule of apimachinery says about a value.
func (f *Findings) Messages(messages []string, value any, at *field.Path) {
	f.List = append(f.List, InvalidIf(messages, value, at)...)
}

// Within reports a number that is out of bounds.
func (f *Findings) Within(value, lowest, highest int64, at *field.Path) {
	f.Invalid(value < lowest || value > highest, at, value, validation.InclusiveRangeError(int(lowest), int(highest)))
}

// NotNegative reports a number below zero.
func (f *Findings) NotNegative(value int64, at *field.Path) {
	f.Invalid(value < 0, at, value, "must be greater than or equal to 0")
}

// Positive reports a number that is not above zero.
func (f *Findings) Positive(value int64, at *field.Path) {
	f.Invalid(value <= 0, at, value, "must be greater than zero")
}

// Label reports what is no DNS label.
func (f *Findings) Label(value string, at *field.Path) {
	f.Messages(validation.IsDNS1123Label(value), value, at)
}

// Subdomain reports what is no DNS subdomain.
func (f *Findings) Subdomain(value string, at *field.Path) {
	f.Messages(validation.IsDNS1123Subdomain(value), value, at)
}

// Unique reports a value that seen has, and adds it otherwise.
func (f *Findings) Unique(value string, seen sets.Set[string], at *field.Path) {
	if seen.Has(value) {
		f.List = append(f.List, field.Duplicate(at, value))
	}
	seen.Insert(value)
}

// Known reports an enumerated value that is none of those.
func Known[T ~string](f *Findings, value T, at *field.Path, values ...T) {
	f.Add(OneOf(value, at, values...))
}

// Choice is an enumerated value that must be given.
func Choice[T ~string](f *Findings, value T, at *field.Path, values ...T) {
	if value == "" {
		f.Need(false, at)
		return
	}
	f.Add(OneOf(value, at, values...))
}

// Chosen checks an optional enumerated value.
func Chosen[T ~string](f *Findings, value *T, at *field.Path, values ...T) {
	if value != nil {
		f.Add(OneOf(*value, at, values...))
	}
}

// Alternative is one field of a set. Exactly one of them must be given.
type Alternative struct {
	Name  string
	Given bool
	Check func(at *field.Path) // nil if there is nothing to check
	At    string               // where check reports, if it is not name
	// Beside is set where a kube-apiserver lets this one stand beside others, by oversight.
	Beside bool
}

// ExactlyOne checks the first alternative that is given, refuses further ones, and asks for one if there is none.
func (f *Findings) ExactlyOne(at *field.Path, more, none string, all []Alternative) {
	found := false
	for _, a := range all {
		switch {
		case !a.Given:
		case found && !a.Beside:
			f.Forbid(true, at.Child(a.Name), more)
		default:
			found = true
			if a.At == "" {
				a.At = a.Name
			}
			if a.Check != nil {
				a.Check(at.Child(a.At))
			}
		}
	}
	if !found {
		f.List = append(f.List, field.Required(at, none))
	}
}
