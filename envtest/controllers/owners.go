// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/recorder"
)

// remembered is how many owners are known to be absent, or to have left their dependents behind, at the same time: some 100 KB.
const remembered = 500

// errNeverCollected says that an object refers to an owner as nothing can own it.
var errNeverCollected = errors.New("it is cluster-scoped and refers to a namespaced owner")

// errUnknownKind says that the kind of an owner is not served, and that nothing is known of its objects.
var errUnknownKind = errors.New("the kind of an owner is not served")

// owners finds out what the owners of objects are. It is safe for concurrent use.
type owners struct {
	kinds  *kinds
	mapper meta.RESTMapper
	live   client.Reader
	events recorder.EventRecorder
	absent *lru.Cache // absence by reference
	left   *lru.Cache // UIDs of owners that were deleted and have left their dependents behind
}

func newOwners(m ctrl.Manager, followed *kinds) *owners {
	return &owners{
		kinds: followed, mapper: m.GetRESTMapper(), live: m.GetAPIReader(), events: m.GetEventRecorder(collectorName),
		absent: lru.New(remembered), left: lru.New(remembered),
	}
}

// reference is an owner as a dependent in a namespace names it.
type reference struct {
	schema.GroupVersionKind
	types.NamespacedName
	uid types.UID
}

// absence is what is known of an owner that is not there.
type absence struct {
	until     int64 // the dependents that were written up to this resource version need not ask again
	elsewhere bool  // there is one of this UID in another namespace
}

// classes are the UIDs of an object's owners, by what they are.
type classes struct {
	solid    bool        // there are some that keep it
	gone     []types.UID // they do not exist
	waiting  []types.UID // they are being deleted, and wait for their dependents to go before them
	orphaned []types.UID // they did not exist any more when the object was first seen, and wanted it to stay
}

// orphaned notes that the dependents of an owner stay, even dependents that its deletion did not
// see.
func (o *owners) orphaned(owner types.UID) { o.left.Add(owner, nil) }

// classify returns what the owners of an object are. An owner that the cache does not have is asked for.
func (o *owners) classify(ctx context.Context, obj *metav1.PartialObjectMetadata) (classes, error) {
	var found classes
	for _, ref := range obj.OwnerReferences {
		owner, err := o.find(ctx, obj, ref)
		if err != nil {
			return classes{}, err
		}
		_, left := o.left.Get(ref.UID)
		switch {
		case owner == nil && left:
			found.orphaned = append(found.orphaned, ref.UID)
		case owner == nil:
			found.gone = append(found.gone, ref.UID)
		case isGoing(owner) && slices.Contains(owner.Finalizers, metav1.FinalizerDeleteDependents):
			found.waiting = append(found.waiting, ref.UID)
		default:
			found.solid = true
		}
	}
	return found, nil
}

// find returns the owner that a reference of an object names, or nil if there is none.
func (o *owners) find(ctx context.Context, obj *metav1.PartialObjectMetadata, ref metav1.OwnerReference) (*metav1.PartialObjectMetadata, error) {
	kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	asked := reference{kind, types.NamespacedName{Namespace: obj.Namespace, Name: ref.Name}, ref.UID}
	if known, ok := o.absent.Get(asked); ok && number(obj) <= known.(absence).until {
		o.report(obj, ref, known.(absence))
		return nil, nil
	}
	namespaced, err := o.isNamespaced(kind)
	if err != nil {
		return nil, o.unlessGone(ctx, kind, err)
	}
	key := asked.NamespacedName
	switch {
	case !namespaced:
		key.Namespace = ""
	case obj.Namespace == "":
		o.report(obj, ref, absence{elsewhere: o.kinds.exists(ctx, kind.GroupKind(), ref.UID)})
		return nil, errNeverCollected
	}
	if owner := o.kinds.cached(ctx, kind.GroupKind(), key); owner != nil && owner.UID == ref.UID {
		return owner, nil
	}
	return o.ask(ctx, obj, ref, asked, key)
}

// ask asks the API server for an owner, and notes that it is not there.
func (o *owners) ask(
	ctx context.Context, obj *metav1.PartialObjectMetadata, ref metav1.OwnerReference, asked reference, key types.NamespacedName,
) (*metav1.PartialObjectMetadata, error) {
	seen := max(o.kinds.newest.Load(), number(obj)) // before the question
	owner := metadataOf(asked.GroupVersionKind)
	err := o.live.Get(ctx, key, owner)
	switch {
	case err == nil && owner.UID == ref.UID:
		o.kinds.lookForOwner(identity{kind: asked.GroupVersionKind, NamespacedName: key, uid: ref.UID})
		return owner, nil
	case meta.IsNoMatchError(err), apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		return nil, o.unlessGone(ctx, asked.GroupVersionKind, err) // the kind is not there
	case err != nil && !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("ask for the owner %s %s: %w", ref.Kind, key, err)
	}
	known := absence{until: seen}
	known.elsewhere = key.Namespace != "" && o.kinds.exists(ctx, asked.GroupKind(), ref.UID)
	o.absent.Add(asked, known)
	o.report(obj, ref, known)
	return nil, nil
}

// isNamespaced returns the scope of a kind, which need not be followed.
func (o *owners) isNamespaced(kind schema.GroupVersionKind) (bool, error) {
	mapping, err := o.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return false, err
	}
	return mapping.Scope.Name() == meta.RESTScopeNameNamespace, nil
}

// unlessGone returns the error of a question for a kind, or nil if the CRD of the kind is gone, and so all its objects are.
// Otherwise the kind may come back with the objects that it had.
func (o *owners) unlessGone(ctx context.Context, kind schema.GroupVersionKind, err error) error {
	if !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
		return err
	}
	if crd := o.kinds.crdOf(kind.GroupKind()); crd != "" {
		if live := o.live.Get(ctx, types.NamespacedName{Name: crd}, metadataOf(crdKind)); apierrors.IsNotFound(live) {
			return nil
		}
	}
	return fmt.Errorf("%w: %w", errUnknownKind, err)
}

// report tells with an event, as kube-controller-manager does, that an owner is in another namespace.
func (o *owners) report(obj *metav1.PartialObjectMetadata, ref metav1.OwnerReference, known absence) {
	if !known.elsewhere {
		return
	}
	o.events.Eventf(obj, nil, corev1.EventTypeWarning, "OwnerRefInvalidNamespace", "Collect",
		"ownerRef [%s/%s, namespace: %s, name: %s, uid: %s] does not exist in namespace %q",
		ref.APIVersion, ref.Kind, obj.Namespace, ref.Name, ref.UID, obj.Namespace)
}
