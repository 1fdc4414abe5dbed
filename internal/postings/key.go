// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package postings

import (
	"strings"
)

// allNamespaces stands in place of the namespace in the keys for queries across all
// namespaces. No namespace can have this name, because of the underscores.
const allNamespaces = "__all_namespaces"

// Name returns the name of the index of a declared field.
func Name(field string) string { return fieldPrefix + field }

const fieldPrefix = "field:"

// FieldOf returns the name of the field that an index with that name is about. An index of client-go's
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
