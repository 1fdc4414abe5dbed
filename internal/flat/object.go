// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

import (
	"github.com/tarn-dev/tarn/internal/flat/decode"
	"github.com/tarn-dev/tarn/internal/flat/encode"
	"github.com/tarn-dev/tarn/internal/flat/plan"
)

type (
	// Object is the flat form of one object.
	Object = decode.Object
	// Identity identifies an Object and its copies.
	Identity = decode.Identity

	// UnsupportedError says why a Go type has no flat form. Objects of such a type stay decoded.
	UnsupportedError = plan.UnsupportedError
	// ValueError says why one object has no flat form although its type has one. Only this object
	// stays decoded.
	ValueError = encode.ValueError
)

var (
	// ErrWrongType says that a codec was given an object, or an Object, of another type.
	ErrWrongType = plan.ErrWrongType
	// ErrCorrupt says that the bytes of an Object were not written by an encoder of its type.
	ErrCorrupt = decode.ErrCorrupt
	// ErrUnusualMessage says that Unmarshal has to read a message, because EncodeWire does not.
	ErrUnusualMessage = encode.ErrUnusualMessage
)
