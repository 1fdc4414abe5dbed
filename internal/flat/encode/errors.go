// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"errors"
	"fmt"
	"reflect"
)

// ErrUnusualMessage says that a protobuf message is not one that a MessageEncoder reads: it is malformed,
// or it has what encoders of the API never write, like a field twice. Unmarshal knows what it means.
var ErrUnusualMessage = errors.New("flat: unusual protobuf message")

// ValueError says why one object has no flat form although its type has one: the object holds a
// value that the form cannot keep without loss. Only this object stays decoded.
type ValueError struct {
	// Type is the type of the object.
	Type reflect.Type
	// Reason says which value cannot be kept.
	Reason string
}

// Error names the type and the reason.
func (e *ValueError) Error() string {
	return fmt.Sprintf("flat: this %v has no flat form: %s; keep it decoded", e.Type, e.Reason)
}
