// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/tarn-dev/tarn/internal/object"
)

// The errors of this file are returned without wrapping. Callers recognize a kind that is missing
// or not registered with functions of package runtime, which do not unwrap errors.

// kindOf returns the kind of obj. It is an error if obj is nil, if its type is not in the scheme,
// or if it is untyped and has no kind.
func kindOf(obj client.Object, scheme *runtime.Scheme) (schema.GroupVersionKind, error) {
	gvk, err := declaredKind(obj, scheme, "Pod")
	if err != nil {
		return gvk, err
	}
	switch obj.(type) {
	case *unstructured.Unstructured, *metav1.PartialObjectMetadata:
		err = checkItem(gvk, scheme)
	}
	return gvk, err
}

// kindOfItems returns the kind of the items of list.
func kindOfItems(list client.ObjectList, scheme *runtime.Scheme) (schema.GroupVersionKind, error) {
	gvk, err := declaredKind(list, scheme, "PodList")
	if err != nil {
		return gvk, err
	}
	if gvk.Kind = strings.TrimSuffix(gvk.Kind, "List"); gvk.Kind == "" {
		return gvk, fmt.Errorf("%T is a list of objects of all kinds, and a cache lists one kind: use the list of that kind, such as *v1.PodList", list)
	}
	return gvk, nil
}

// declaredKind returns the kind that the scheme has for the Go type of obj. For an untyped object
// or list it returns the kind that obj names. Like is an example of a kind, for the error.
func declaredKind(obj runtime.Object, scheme *runtime.Scheme, like string) (schema.GroupVersionKind, error) {
	if isNil(obj) {
		return schema.GroupVersionKind{}, errors.New("the object is nil: pass a pointer to an empty object of the kind")
	}
	gvk, err := apiutil.GVKForObject(obj, scheme)
	switch {
	case runtime.IsNotRegisteredError(err):
		err = object.NotRegistered(scheme, reflect.TypeOf(obj).Elem().String(), "")
	case runtime.IsMissingKind(err): // whose text ends with a quotation mark
		err = runtime.NewMissingKindErr(fmt.Sprintf("%T'; call its SetGroupVersionKind first, with a kind such as '%s", obj, like))
	case runtime.IsMissingVersion(err):
		err = runtime.NewMissingVersionErr(fmt.Sprintf("%T'; call its SetGroupVersionKind first, with a version such as 'v1", obj))
	}
	return gvk, err
}

// checkRegistered returns an error unless the scheme has a Go type for objects of gvk.
func checkRegistered(gvk schema.GroupVersionKind, scheme *runtime.Scheme) error {
	switch {
	case gvk.Kind == "" || gvk.Version == "":
		return runtime.NewNotRegisteredErrForKind(scheme.Name(), gvk)
	case !scheme.Recognizes(gvk):
		return object.NotRegistered(scheme, "of "+object.Describe(gvk), ", or use unstructured.Unstructured")
	}
	return checkItem(gvk, scheme)
}

// checkItem returns an error if the scheme says that gvk is the kind of a list.
func checkItem(gvk schema.GroupVersionKind, scheme *runtime.Scheme) error {
	item, ok := strings.CutSuffix(gvk.Kind, "List")
	if !ok {
		return nil
	}
	if obj, err := scheme.New(gvk); err != nil || !meta.IsListType(obj) {
		return nil
	}
	return fmt.Errorf("%s is the kind of a list: use that of its items, %s", object.Describe(gvk), item)
}

// checkOptions returns an error if one of the options is nil.
func checkOptions[Option any](opts []Option) error {
	for i, o := range opts {
		if isNil(o) {
			return fmt.Errorf("option %d is nil (%T)", i+1, o)
		}
	}
	return nil
}

func isNil(obj any) bool {
	v := reflect.ValueOf(obj)
	switch v.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Pointer, reflect.Func:
		return v.IsNil()
	}
	return false
}
