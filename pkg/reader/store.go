// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/watchcache"
	"github.com/tarn-dev/tarn/pkg/index"
)

// Store is what a reader reads: an [Engine] or an [Indexer].
type Store interface {
	// form gives back what the objects of the store were made from.
	form() *object.Form
	get(key client.ObjectKey) (object.Object, bool, error)
	// find returns the objects that match, in the order of their keys.
	find(*request) (found, error)
	// keep keeps what a list with pages to come has read, and returns its name.
	keep(state any) uint64
	// states is where that is kept.
	states() *pages
}

// request says which objects are wanted.
type request struct {
	namespace string // empty means all
	key       string // of the one object that can match; empty if there may be several
	labels    labels.Selector
	fields    index.Selection
	page      page
}

// counted reports that the caller is to be told how many objects follow: like an API
// server, a store counts only what no selector restricts.
func (q *request) counted() bool { return unrestricted(q.labels) && q.fields.Everything() }

func unrestricted(selector labels.Selector) bool { return selector == nil || selector.Empty() }

// found is the answer to a query.
type found struct {
	items    []item
	rest     int64  // objects that match, behind the items; counted only if the request is
	revision string // up to which the answer is complete
	state    any    // what was read, for Store.keep
}

// item is an object of a store and its key, see Key.
type item = watchcache.Item[object.Object]

// Key is what objects are ordered by: the namespace, and in it the name. In contrast
// to client-go's keys, which have a slash between the two, the order of the keys is
// that of the namespaces. A key shares no memory with the name: a name that is read
// out of a flat object keeps up to some KiB of that from being collected.
func Key(namespace, name string) string {
	if namespace == "" {
		return strings.Clone(name)
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
