// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// ownNames gives an object that was made of a flat one a namespace, a name and a UID in
// memory of their own. The other strings point into the flat bytes; these are what users
// keep, in the keys of queues and maps, and each would keep a whole object that may be
// long gone.
func ownNames(obj any) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return
	}
	namespace, name, uid := m.GetNamespace(), m.GetName(), string(m.GetUID())
	all := namespace + "\x00" + name + uid // for one that is alone, + would make no copy
	if namespace != "" {
		m.SetNamespace(all[:len(namespace)])
	}
	all = all[len(namespace)+1:]
	if name != "" {
		m.SetName(all[:len(name)])
	}
	if uid != "" {
		m.SetUID(types.UID(all[len(name):]))
	}
}

// namesOf gives an object that was made beside like the namespace, the name and the UID of
// that, where they are the same. Unstructured objects may share the metadata that hold them,
// and already have them then.
func namesOf(obj, like any) {
	if _, ok := obj.(runtime.Unstructured); ok {
		return
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return
	}
	l, err := meta.Accessor(like)
	if err != nil {
		return
	}
	if m.GetNamespace() == l.GetNamespace() {
		m.SetNamespace(l.GetNamespace())
	}
	if m.GetName() == l.GetName() {
		m.SetName(l.GetName())
	}
	if m.GetUID() == l.GetUID() {
		m.SetUID(l.GetUID())
	}
}
