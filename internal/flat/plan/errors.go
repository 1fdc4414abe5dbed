// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"reflect"
)

// ErrWrongType says that an object, or an Object, is of another type than the Root.
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
