// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"errors"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// kindOf returns the kind of obj. An object that is nil, of a type that is not
// in the scheme, or untyped and without a kind is an error.
func kindOf(obj runtime.Object, scheme *runtime.Scheme) (schema.GroupVersionKind, error) {
	if isNil(obj) {
		return schema.GroupVersionKind{}, errors.New("the object is nil: pass a pointer to an empty object of the kind")
	}
	gvk, err := apiutil.GVKForObject(obj, scheme)
	if runtime.IsNotRegisteredError(err) {
		err = runtime.NewNotRegisteredErrForType(withAdvice(scheme), reflect.TypeOf(obj))
	}
	return gvk, err
}

// kindOfItems returns the kind of the items of list.
func kindOfItems(list client.ObjectList, scheme *runtime.Scheme) (schema.GroupVersionKind, error) {
	gvk, err := kindOf(list, scheme)
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	return gvk, err
}

// checkRegistered returns an error unless gvk has a Go type.
func checkRegistered(gvk schema.GroupVersionKind, scheme *runtime.Scheme) error {
	if scheme.Recognizes(gvk) {
		return nil
	}
	return runtime.NewNotRegisteredErrForKind(withAdvice(scheme), gvk)
}

// withAdvice is the scheme's name with what to do about a missing type. The
// advice travels in the name because runtime.IsNotRegisteredError does not
// unwrap, so that the error must be the runtime package's own.
func withAdvice(scheme *runtime.Scheme) string {
	return scheme.Name() + "; add it with the AddToScheme function of its API package"
}

func isNil(obj any) bool {
	v := reflect.ValueOf(obj)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}
