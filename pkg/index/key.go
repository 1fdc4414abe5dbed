// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"fmt"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// allNamespaces stands where a namespace would in the keys for queries across
// all namespaces. The underscores keep it apart from every valid namespace.
const allNamespaces = "__all_namespaces"

// Name is the name of the client-go index that serves field.
func Name(field string) string { return "field:" + field }

// Key is the key under which value is filed for namespace; an empty namespace
// is the key for cluster-scoped objects and for queries across all namespaces.
func Key(namespace, value string) string {
	if namespace == "" {
		namespace = allNamespaces
	}
	return namespace + "/" + value
}

// keysFor files every value under the namespace of its object, if it has one,
// and under all namespaces. The values are not modified.
func keysFor(namespace string, values []string) []string {
	if namespace == "" {
		keys := make([]string, len(values))
		for i, value := range values {
			keys[i] = Key("", value)
		}
		return keys
	}
	keys := make([]string, 2*len(values))
	for i, value := range values {
		keys[2*i] = Key(namespace, value)
		keys[2*i+1] = Key("", value)
	}
	return keys
}

// indexFunc adapts extract to client-go's indexes.
func indexFunc(extract client.IndexerFunc) toolscache.IndexFunc {
	return func(raw any) ([]string, error) {
		obj, ok := raw.(client.Object)
		if !ok {
			return nil, fmt.Errorf("cannot index a %T: it is no client.Object", raw)
		}
		return keysFor(obj.GetNamespace(), extract(obj)), nil
	}
}
