// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// NotIndexedError is returned for a field selector that names a field without
// an index. Match it with errors.As.
type NotIndexedError struct {
	// GVK is the kind that was listed.
	GVK schema.GroupVersionKind
	// Field is the name used in the selector.
	Field string
}

// Error implements error.
func (e *NotIndexedError) Error() string {
	return fmt.Sprintf("field %q of %s is not indexed: declare it with IndexField before listing by it",
		e.Field, Describe(e.GVK))
}

// Describe names a kind in messages, as in "Pod (v1)".
func Describe(gvk schema.GroupVersionKind) string {
	return gvk.Kind + " (" + gvk.GroupVersion().String() + ")"
}
