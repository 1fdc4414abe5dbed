// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/index"
	"github.com/tarn-dev/tarn/pkg/object"
)

// Store is what a reader reads: an [Engine] or an [Indexer].
type Store interface {
	// form gives back what the objects of the store were made from.
	form() *object.Form
	get(key client.ObjectKey) (object.Object, bool, error)
	// find returns the objects that match, in the order of their keys.
	find(query) (found, error)
}

// query says which objects are wanted.
type query struct {
	namespace string // empty means all
	labels    labels.Selector
	fields    index.Selection
	page      page
}

// found is the answer to a query.
type found struct {
	items    []item
	revision string // up to which the answer is complete
	state    uint64 // names the state that was read, if it can be read again
}

// item is an object of a store and its key.
type item struct {
	key string // see Key
	obj object.Object
}

// Key is what objects are ordered by: the namespace, and in it the name. In contrast
// to client-go's keys, which have a slash between the two, the order of the keys is
// that of the namespaces.
func Key(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + separator + name
}

// separator sorts before all that a namespace may contain.
const separator = "\x00"

// Prefix is that of the keys of a namespace; that of all keys is empty.
func Prefix(namespace string) string {
	if namespace == "" {
		return ""
	}
	return namespace + separator
}

// StoreKey is client-go's form of a key.
func StoreKey(key string) string { return strings.Replace(key, separator, "/", 1) }

// splitKey takes a key apart.
func splitKey(key string) (namespace, name string) {
	if namespace, name, ok := strings.Cut(key, separator); ok {
		return namespace, name
	}
	return "", key
}
