// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"context"
	"fmt"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
)

// listAll lists the objects of all namespaces as they are in storage now.
func listAll[L runtime.Object](ctx context.Context, store *genericregistry.Store) (L, error) {
	return listIn[L](ctx, store, "")
}

// listIn is listAll for one namespace.
func listIn[L runtime.Object](ctx context.Context, store *genericregistry.Store, namespace string) (L, error) {
	var none L
	list, err := store.List(genericapirequest.WithNamespace(ctx, namespace), &metainternalversion.ListOptions{})
	if err != nil {
		return none, err
	}
	typed, ok := list.(L)
	if !ok {
		return none, fmt.Errorf("list of %s: got %T, want %T", store.DefaultQualifiedResource, list, none)
	}
	return typed, nil
}

// getOne returns an object as it is in storage now, of the namespace of the request if it is namespaced.
func getOne[T runtime.Object](ctx context.Context, from rest.Getter, name string) (T, error) {
	obj, err := from.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return *new(T), err
	}
	return mustBe[T](obj), nil
}
