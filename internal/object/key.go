// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import "strings"

// separator stands between the namespace and the name in a key. It sorts before every
// character that a namespace may contain.
const separator = "\x00"

// Key returns the key of an object in an engine. Keys are ordered by namespace, and within
// a namespace by name; client-go's keys, with a slash between the two, are not. A key shares
// no memory with the name: a name that was read out of a flat object keeps up to some KiB of
// that object from being collected.
func Key(namespace, name string) string {
	if namespace == "" {
		return strings.Clone(name)
	}
	return namespace + separator + name
}

// KeyPrefix returns the prefix of the keys of all objects in a namespace. Without a
// namespace it is empty, and so the prefix of every key.
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

// StoreKey returns the key that client-go's stores have for the object with this key.
func StoreKey(key string) string { return strings.Replace(key, separator, "/", 1) }
