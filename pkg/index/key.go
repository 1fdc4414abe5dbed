// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"fmt"
	"strings"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// allNamespaces stands in place of the namespace in the keys for queries across all
// namespaces. No namespace can have this name, because of the underscores.
const allNamespaces = "__all_namespaces"

// Name returns the name of the index of a declared field.
func Name(field string) string { return fieldPrefix + field }

const fieldPrefix = "field:"

// FieldOf returns the name of the field of which the index with that name is. An index of client-go's
// functions keeps its name.
func FieldOf(name string) string { return strings.TrimPrefix(name, fieldPrefix) }

// Unfit returns the name of the index of the objects that a view of an informer cannot show, because they do not
// fit its Go type. It has a zero byte, which the names of users' indexes in the same store do not have.
func Unfit(space string) string { return "unfit\x00" + space }

// Key returns the key under which an index of client-go has the objects of a namespace with a
// value. If namespace is empty, the key is that of cluster-scoped objects, and of queries across
// all namespaces.
func Key(namespace, value string) string {
	if namespace == "" {
		namespace = allNamespaces
	}
	return namespace + "/" + value
}

// keysFor returns the keys of an object with these values: of each value one for all namespaces
// and, if the object has a namespace, one for that. It does not change values.
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
