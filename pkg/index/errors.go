// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
		e.Field, Describe(e.GVK))
}

// NameCrash is to be deferred around a call of a user's index function. If the function panics,
// NameCrash panics with an error that names the index, as in `field "image" of Pod (v1)`, and the
// key of obj. The stack of the panic still shows the function. If the function panicked with an
// error, the new error wraps it.
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
