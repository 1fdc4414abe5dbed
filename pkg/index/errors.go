// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

// NameCrash is deferred around a call of a user's index function: a panic at obj goes on as
// an error that names the index, as in `field "image" of Pod (v1)`, and the object. Its stack
// is still that of the function. A value that was an error is wrapped.
func NameCrash(index string, obj client.Object) {
	switch r := recover().(type) {
	case nil:
	case error:
		panic(fmt.Errorf("the function of %s panicked at %s: %w", index, client.ObjectKeyFromObject(obj), r))
	default:
		panic(fmt.Errorf("the function of %s panicked at %s: %v", index, client.ObjectKeyFromObject(obj), r))
	}
}

// Describe names a kind in messages, as in "Pod (v1)".
func Describe(gvk schema.GroupVersionKind) string {
	return gvk.Kind + " (" + gvk.GroupVersion().String() + ")"
}
