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

	"github.com/tarn-dev/tarn/pkg/index"
	"github.com/tarn-dev/tarn/pkg/informers"
)

// The errors of this file are returned as they are: those who look for a kind that is not
// registered, or that is missing, do it with functions of package runtime, which do not
// unwrap.

// kindOf returns the kind of obj. An object that is nil, of a type that is not
// in the scheme, or untyped and without a kind is an error.
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

// declaredKind returns the kind that a Go type has in the scheme, or that an untyped
// object or list says it has; like is one that it could say.
func declaredKind(obj runtime.Object, scheme *runtime.Scheme, like string) (schema.GroupVersionKind, error) {
	if isNil(obj) {
		return schema.GroupVersionKind{}, errors.New("the object is nil: pass a pointer to an empty object of the kind")
	}
	gvk, err := apiutil.GVKForObject(obj, scheme)
	switch {
	case runtime.IsNotRegisteredError(err):
		err = informers.NotRegistered(scheme, reflect.TypeOf(obj).Elem().String(), "")
	case runtime.IsMissingKind(err): // whose text ends with a quotation mark
		err = runtime.NewMissingKindErr(fmt.Sprintf("%T'; call its SetGroupVersionKind first, with a kind such as '%s", obj, like))
	case runtime.IsMissingVersion(err):
		err = runtime.NewMissingVersionErr(fmt.Sprintf("%T'; call its SetGroupVersionKind first, with a version such as 'v1", obj))
	}
	return gvk, err
}

// checkRegistered returns an error unless gvk is that of objects of a Go type.
func checkRegistered(gvk schema.GroupVersionKind, scheme *runtime.Scheme) error {
	switch {
	case gvk.Kind == "" || gvk.Version == "":
		return runtime.NewNotRegisteredErrForKind(scheme.Name(), gvk)
	case !scheme.Recognizes(gvk):
		return informers.NotRegistered(scheme, "of "+index.Describe(gvk), ", or use unstructured.Unstructured")
	}
	return checkItem(gvk, scheme)
}

// checkItem returns an error if gvk is the kind of a list, as far as the scheme knows.
func checkItem(gvk schema.GroupVersionKind, scheme *runtime.Scheme) error {
	item, ok := strings.CutSuffix(gvk.Kind, "List")
	if !ok {
		return nil
	}
	if obj, err := scheme.New(gvk); err != nil || !meta.IsListType(obj) {
		return nil
	}
	return fmt.Errorf("%s is the kind of a list: use that of its items, %s", index.Describe(gvk), item)
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
