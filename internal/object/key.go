// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// separator is between the namespace and the name in a key. It sorts before every character that a
// namespace may contain.
const separator = "\x00"

// Key returns the key of an object in an engine. Keys are ordered by namespace, and within a
// namespace by name. The keys of client-go are not, because they have a slash in place of the
// separator. A key shares no memory with the name: a name that was read from a flat object would
// prevent the garbage collection of up to some KiB of that object.
func Key(namespace, name string) string {
	if namespace == "" {
		return strings.Clone(name)
	}
	return namespace + separator + name
}

// KeyPrefix returns the prefix of the keys of all objects in a namespace. For an empty namespace it
// returns the empty string, which is a prefix of every key.
func KeyPrefix(namespace string) string {
	if namespace == "" {
		return ""
	}
	return namespace + separator
}

// SplitKey returns the namespace and the name of a key.
func SplitKey(key string) (namespace, name string) {
	if namespace, name, ok := strings.Cut(key, separator); ok {
		return namespace, name
	}
	return "", key
}

// StoreKey returns the key that client-go's stores use for the object with this key.
func StoreKey(key string) string { return strings.Replace(key, separator, "/", 1) }

// Describe names a kind in messages, as in "Pod (v1)".
func Describe(gvk schema.GroupVersionKind) string {
	return gvk.Kind + " (" + gvk.GroupVersion().String() + ")"
}
