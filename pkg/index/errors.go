// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarn-dev/tarn/internal/object"
)

// NotIndexedError is the error of a list whose field selector names a field that is not
// declared with IndexField. Match it with errors.As.
type NotIndexedError struct {
	// GVK is the kind that was listed.
	GVK schema.GroupVersionKind
	// Field is the name used in the selector.
	Field string
}

// Error implements error.
func (e *NotIndexedError) Error() string {
	return fmt.Sprintf("field %q of %s is not indexed: declare it with IndexField before listing by it",
		e.Field, object.Describe(e.GVK))
}
