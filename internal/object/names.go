// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ownNames gives the metadata of an object that was made of a flat one a namespace, a name and
// a UID in memory of their own. The other strings stand in the memory of the flat object, and each
// would keep up to some KiB of it. The names are what users keep most, in the keys of
// queues and maps.
func ownNames(m metav1.Object) {
	namespace, name, uid := m.GetNamespace(), m.GetName(), string(m.GetUID())
	all := namespace + "\x00" + name + uid // for one that is alone, + would make no copy
	setNames(m, all[:len(namespace)], all[len(namespace)+1:len(all)-len(uid)], all[len(all)-len(uid):])
}

// setNames sets the names that are not empty: to set an empty one would take the field out
// of unstructured content that has it.
func setNames(m metav1.Object, namespace, name, uid string) {
	if namespace != "" {
		m.SetNamespace(namespace)
	}
	if name != "" {
		m.SetName(name)
	}
	if uid != "" {
		m.SetUID(types.UID(uid))
	}
}

// shareNames is ownNames for an object that was made beside one with the metadata like, which
// has names of its own: the two share these if they are the same.
func shareNames(m, like metav1.Object) {
	namespace, name, uid := like.GetNamespace(), like.GetName(), string(like.GetUID())
	switch {
	case sameMemory(m.GetNamespace(), namespace) && sameMemory(m.GetName(), name) && sameMemory(string(m.GetUID()), uid):
		// All that holds the names may be that of like, which must not be written to.
	case m.GetNamespace() == namespace && m.GetName() == name && string(m.GetUID()) == uid:
		setNames(m, namespace, name, uid)
	default:
		ownNames(m)
	}
}

// sameMemory reports that a and b are the same and stand in the same place.
func sameMemory(a, b string) bool {
	return a == b && (a == "" || unsafe.StringData(a) == unsafe.StringData(b))
}
