// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

import (
	"errors"
	"fmt"
	"reflect"
)

// ErrCorrupt says that the bytes of an Object were not written by an encoder of its type.
var ErrCorrupt = errors.New("flat: corrupt object bytes")

// ErrWrongType says that a codec was given an object, or an Object, of another type.
var ErrWrongType = errors.New("flat: wrong type for this codec")

// UnsupportedError says why a Go type has no flat form. Objects of such a type stay decoded.
type UnsupportedError struct {
	// Type is the type that was asked for.
	Type reflect.Type
	// Path leads from Type to the field that has no flat form, like "Spec.Template.state".
	Path string
	// Reason says why that field cannot be kept without loss.
	Reason string
}

// Error names the type, the field and the reason.
func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("flat: %v has no flat form: %s: %s; keep its objects decoded", e.Type, e.Path, e.Reason)
}

// ValueError says why one object has no flat form although its type has one: the object holds a
// value that the codec cannot keep without loss. Only this object stays decoded.
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

// MismatchError says that an Object was decoded to something else than was encoded. The cause is a
// bug of this package, or a change of the source object after its encoding.
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
