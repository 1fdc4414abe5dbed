// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// delete deletes an object in the version that was seen. If it is newer by now, and has the same owners, it is deleted all the
// same: frequent writes of its status must not keep it.
func (r *collector) delete(ctx context.Context, obj *metav1.PartialObjectMetadata, policy metav1.DeletionPropagation) error {
	err := r.client.Delete(ctx, obj, client.Preconditions{UID: &obj.UID, ResourceVersion: &obj.ResourceVersion}, client.PropagationPolicy(policy))
	if !apierrors.IsConflict(err) {
		return client.IgnoreNotFound(err)
	}
	now := metadataOf(obj.GroupVersionKind())
	if liveErr := r.owners.live.Get(ctx, client.ObjectKeyFromObject(obj), now); liveErr != nil {
		return client.IgnoreNotFound(liveErr)
	}
	if now.UID != obj.UID || !apiequality.Semantic.DeepEqual(now.OwnerReferences, obj.OwnerReferences) {
		return err
	}
	return client.IgnoreNotFound(r.client.Delete(ctx, obj, client.Preconditions{UID: &obj.UID}, client.PropagationPolicy(policy)))
}

// change patches an object in the version that was seen, and gives obj what it is then.
func (r *collector) change(ctx context.Context, obj *metav1.PartialObjectMetadata, change func()) error {
	before := obj.DeepCopy()
	change()
	if apiequality.Semantic.DeepEqual(before.ObjectMeta, obj.ObjectMeta) {
		return nil
	}
	return r.client.Patch(ctx, obj, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// removeOwners takes references to owners away.
func (r *collector) removeOwners(ctx context.Context, obj *metav1.PartialObjectMetadata, owners ...types.UID) error {
	return r.change(ctx, obj, func() {
		obj.OwnerReferences = slices.DeleteFunc(obj.OwnerReferences, func(ref metav1.OwnerReference) bool {
			return slices.Contains(owners, ref.UID)
		})
	})
}

// unblockOwners lets all owners of an object go before it.
func (r *collector) unblockOwners(ctx context.Context, obj *metav1.PartialObjectMetadata) error {
	return r.change(ctx, obj, func() {
		for i := range obj.OwnerReferences {
			if isBlocking(obj.OwnerReferences[i]) {
				obj.OwnerReferences[i].BlockOwnerDeletion = ptr.To(false)
			}
		}
	})
}

// removeFinalizer takes a finalizer away.
func (r *collector) removeFinalizer(ctx context.Context, obj *metav1.PartialObjectMetadata, finalizer string) error {
	return client.IgnoreNotFound(r.change(ctx, obj, func() {
		obj.Finalizers = slices.DeleteFunc(obj.Finalizers, func(f string) bool { return f == finalizer })
	}))
}
