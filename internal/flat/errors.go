// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

import (
	"errors"
	"fmt"
	"reflect"
)

// ErrCorrupt says that the bytes of an Object cannot be what an encoder of its type wrote.
var ErrCorrupt = errors.New("flat: corrupt object bytes")

// ErrWrongType says that an object, or an Object, was given to the codec of another type.
var ErrWrongType = errors.New("flat: wrong type for this codec")

// UnsupportedError says why a Go type has no flat form. Objects of that type stay decoded.
type UnsupportedError struct {
	// Type is the type that was asked for.
	Type reflect.Type
	// Path leads from Type to the field that stands in the way, like "Spec.Template.state".
	Path string
	// Reason says what about that field cannot be kept without loss.
	Reason string
}

// Error names the type, the field and the reason.
func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("flat: %v has no flat form: %s: %s; keep its objects decoded", e.Type, e.Path, e.Reason)
}

// ValueError says why one object has no flat form although its type has one: it holds a value
// that the codec cannot keep without loss. That one object stays decoded.
type ValueError struct {
	// Type is the type of the codec.
	Type reflect.Type
	// Reason says which value cannot be kept.
	Reason string
}

// Error names the type and the reason.
func (e *ValueError) Error() string {
	return fmt.Sprintf("flat: this %v has no flat form: %s; keep it decoded", e.Type, e.Reason)
}

// MismatchError says that an Object did not give back what was encoded. It is a bug of this
// package, or the source was changed after it was encoded.
type MismatchError struct {
	// Type is the type of the codec.
	Type reflect.Type
	// Path leads to the first difference.
	Path string
}

// Error names the type and the first difference.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("flat: %v does not survive its flat form: first difference at %s", e.Type, e.Path)
}
