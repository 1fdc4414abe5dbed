// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// ownNames gives the metadata of a decoded object a namespace, a name and a UID in memory of their
// own. The strings of a decoded object refer to memory of the flat one, and each keeps up to some
// KiB of it. Namespace, name and UID are the strings that users keep most, in the keys of queues
// and maps.
func ownNames(m metav1.Object) {
	namespace, name, uid := m.GetNamespace(), m.GetName(), string(m.GetUID())
	all := namespace + "\x00" + name + uid // + copies only if two operands are not empty
	setNames(m, all[:len(namespace)], all[len(namespace)+1:len(all)-len(uid)], all[len(all)-len(uid):])
}

// setNames sets those of the names that are not empty. An empty one is skipped, because setting it
// would remove the field from unstructured content.
func setNames(m metav1.Object, namespace, name, uid string) {
	if namespace != "" {
		m.SetNamespace(namespace)
	}
	if name != "" {
		m.SetName(name)
	}
	// A call of SetUID through the interface would link that method of every kind.
	if own, typed := m.(*metav1.ObjectMeta); uid != "" && typed {
		own.SetUID(types.UID(uid))
	} else if uid != "" {
		m.(*unstructured.Unstructured).SetUID(types.UID(uid))
	}
}

// shareNames is ownNames for an object that was decoded with reuse of another one. like is the
// metadata of the latter, and its names have memory of their own. If the names of both are equal,
// they share that memory.
func shareNames(m, like metav1.Object) {
	namespace, name, uid := like.GetNamespace(), like.GetName(), string(like.GetUID())
	switch {
	case sameMemory(m.GetNamespace(), namespace) && sameMemory(m.GetName(), name) && sameMemory(string(m.GetUID()), uid):
		// Nothing is to be done. The maps that hold the names may be those of like, which must not
		// be changed.
	case m.GetNamespace() == namespace && m.GetName() == name && string(m.GetUID()) == uid:
		setNames(m, namespace, name, uid)
	default:
		ownNames(m)
	}
}

// sameMemory reports that a and b are equal and have the same address.
func sameMemory(a, b string) bool {
	return a == b && (a == "" || unsafe.StringData(a) == unsafe.StringData(b))
}
