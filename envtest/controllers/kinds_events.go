// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"slices"
	"strconv"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// handler returns what tells the collector of the objects of a kind.
func (k *kinds) handler(kind schema.GroupVersionKind) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if o, ok := obj.(*metav1.PartialObjectMetadata); ok {
				k.seen(kind, o)
				if len(o.OwnerReferences) > 0 || isGoing(o) {
					k.look(identityOf(kind, o))
				}
			}
		},
		UpdateFunc: func(old, obj any) {
			was, wasOne := old.(*metav1.PartialObjectMetadata)
			if o, ok := obj.(*metav1.PartialObjectMetadata); ok && wasOne && was.ResourceVersion != o.ResourceVersion {
				k.seen(kind, o)
				k.updated(kind, was, o)
			}
		},
		DeleteFunc: func(obj any) {
			if last, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			if o, ok := obj.(*metav1.PartialObjectMetadata); ok {
				k.seen(kind, o)
				k.look(identityOf(kind, o))
				for _, ref := range o.OwnerReferences {
					k.lookAtOwner(o, ref)
				}
			}
		},
	}
}

// seen notes what an event says about the versions that are seen, and about the kinds that there are.
func (k *kinds) seen(kind schema.GroupVersionKind, obj client.Object) {
	version := number(obj)
	for newest := k.newest.Load(); version > newest && !k.newest.CompareAndSwap(newest, version); {
		newest = k.newest.Load()
	}
	if kind == crdKind {
		k.heard.Store(time.Now().UnixNano())
	}
	if kind == crdKind || kind == apiServiceKind {
		k.look(identity{task: discover})
	}
}

// number is the resource version of an object, which are comparable in one API server; zero if it is no number.
func number(obj client.Object) int64 {
	n, err := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// updated has an object looked at if its owners or its deletion have changed, and the owners that it does not block any more.
func (k *kinds) updated(kind schema.GroupVersionKind, old, obj *metav1.PartialObjectMetadata) {
	owners := !apiequality.Semantic.DeepEqual(old.OwnerReferences, obj.OwnerReferences)
	if owners || isGoing(obj) && (!isGoing(old) || !slices.Equal(old.Finalizers, obj.Finalizers)) {
		k.look(identityOf(kind, obj))
	}
	if !owners {
		return
	}
	for _, ref := range old.OwnerReferences {
		if isBlocking(ref) && !blocks(obj, ref.UID) {
			k.lookAtOwner(obj, ref)
		}
	}
}

// lookAgain has all objects looked at whose owners are of a kind, and those that may wait for objects of the kind.
func (k *kinds) lookAgain(kind schema.GroupKind) {
	k.look(identity{kind: kind.WithVersion(""), task: judgeAgain})
}

// lookForOwner has an owner looked for that the API server knows, and the cache does not show yet. Nobody might tell that it has gone.
func (k *kinds) lookForOwner(id identity) {
	id.task = findOwner
	k.queue.AddAfter(id, settle)
}

// look has an object looked at.
func (k *kinds) look(id identity) { k.queue.Add(id) }

// lookAtOwner has the owner that an object refers to looked at, soon: much may happen to its dependents at the same time.
func (k *kinds) lookAtOwner(obj *metav1.PartialObjectMetadata, ref metav1.OwnerReference) {
	found := k.of(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind())
	if found == nil {
		return
	}
	key := types.NamespacedName{Namespace: obj.Namespace, Name: ref.Name}
	if !found.namespaced {
		key.Namespace = ""
	}
	k.queue.AddAfter(identity{kind: found.GroupVersionKind, NamespacedName: key, uid: ref.UID}, settle)
}
