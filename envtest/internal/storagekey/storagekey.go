// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storagekey knows the keys of objects in etcd.
//
// A key is ROOT/GROUP/RESOURCE/NAMESPACE/NAME. There is no GROUP for the core group, and no NAMESPACE for cluster-scoped objects.
// The storage of a resource calls GROUP/RESOURCE its prefix, and its keys have no root.
package storagekey

import (
	"path"
	"strings"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// DefaultRoot begins the keys of a server that is not told another root.
const DefaultRoot = "/registry"

// Prefix keeps resources of different groups apart. Admission takes resources of one prefix as equivalent.
func Prefix(resource schema.GroupResource) string {
	if resource == eventsv1.Resource("events") { // the other form of the core group's
		resource.Group = ""
	}
	return path.Join(resource.Group, resource.Resource)
}

// Of returns the key of an object below DefaultRoot. Without a name it returns what the keys of a namespace begin with, and without
// a namespace too, those of the resource.
func Of(resource schema.GroupResource, name types.NamespacedName) string {
	return Below(DefaultRoot+"/"+Prefix(resource), name)
}

// Below returns the key of an object below a prefix.
func Below(prefix string, name types.NamespacedName) string {
	if name.Namespace != "" {
		prefix += "/" + name.Namespace
	}
	return prefix + "/" + name.Name
}

// Parse reads a key below DefaultRoot. builtin returns the built-in resource with a prefix; a resource that it does not know is
// custom.
func Parse(key string, builtin func(prefix string) (schema.GroupResource, bool)) (resource schema.GroupResource, name types.NamespacedName, custom bool) {
	first, rest, _ := strings.Cut(strings.TrimPrefix(key, DefaultRoot+"/"), "/")
	if resource, ok := builtin(first); ok {
		return resource, nameOf(rest), false
	}
	second, rest, _ := strings.Cut(rest, "/")
	if resource, ok := builtin(first + "/" + second); ok {
		return resource, nameOf(rest), false
	}
	return schema.GroupResource{Group: first, Resource: second}, nameOf(rest), true
}

// Within reads a key of the storage with a prefix, or of its objects in etcd below root. One element behind the prefix is the name,
// or for a collection the namespace.
func Within(root, prefix, key string, collection bool) types.NamespacedName {
	key = path.Join("/", key) + "/"
	rest, stored := strings.CutPrefix(key, path.Join("/", root, prefix)+"/")
	if !stored {
		rest = strings.TrimPrefix(key, path.Join("/", prefix)+"/")
	}
	name := nameOf(strings.TrimSuffix(rest, "/"))
	if collection && name.Namespace == "" {
		name.Namespace, name.Name = name.Name, ""
	}
	return name
}

// nameOf reads what stands behind the prefix.
func nameOf(rest string) types.NamespacedName {
	if namespace, name, both := strings.Cut(rest, "/"); both {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	return types.NamespacedName{Name: rest}
}
