// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"context"
	"fmt"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/runtime"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
)

// listAll lists the objects of all namespaces as they are in storage now.
func listAll[L runtime.Object](ctx context.Context, store *genericregistry.Store) (L, error) {
	var none L
	list, err := store.List(genericapirequest.WithNamespace(ctx, ""), &metainternalversion.ListOptions{})
	if err != nil {
		return none, err
	}
	typed, ok := list.(L)
	if !ok {
		return none, fmt.Errorf("list of %s: got %T, want %T", store.DefaultQualifiedResource, list, none)
	}
	return typed, nil
}
