// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/cache"
)

// eachDependent calls f for each object that refers to an owner, until it fails.
func (k *kinds) eachDependent(ctx context.Context, owner types.UID, f func(*metav1.PartialObjectMetadata) error) error {
	return k.each(ctx, string(owner), f)
}

// each calls f for each object with a relation, until it fails. Kinds that are not cached are left out: their objects are looked
// at when they come.
func (k *kinds) each(ctx context.Context, relation string, f func(*metav1.PartialObjectMetadata) error) error {
	for _, kind := range k.all() {
		for obj, err := range cache.Iterate(ctx, k.cache, metadataOf(kind.GroupVersionKind), client.MatchingFields{byRelation: relation}) {
			if isNotCached(err) && ctx.Err() == nil {
				break
			}
			if err == nil {
				err = f(obj)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// isNotCached says that a kind cannot be read, for now, or because it is not served or not followed.
func isNotCached(err error) bool {
	why := (*cache.NotSyncedError)(nil)
	return meta.IsNoMatchError(err) || errors.As(err, &why) || isNotFollowed(err)
}

// isNotFollowed says that nobody has begun to cache a kind, or that it was ended.
func isNotFollowed(err error) bool {
	why := (*cache.ErrResourceNotCached)(nil)
	return errors.As(err, &why)
}

// cached returns an object of a kind, or nil if the cache does not have it. The collector will be told when it goes.
func (k *kinds) cached(ctx context.Context, kind schema.GroupKind, key types.NamespacedName) *metav1.PartialObjectMetadata {
	found := k.of(kind)
	if found == nil || !found.told.Load() {
		return nil
	}
	obj := metadataOf(found.GroupVersionKind)
	if err := k.cache.Get(ctx, key, obj); err != nil {
		return nil
	}
	return obj
}

// exists reports whether the cache has an object of a kind with a UID, in any namespace.
func (k *kinds) exists(ctx context.Context, kind schema.GroupKind, uid types.UID) bool {
	found := k.of(kind)
	if found == nil {
		return false
	}
	for obj, err := range cache.Iterate(ctx, k.cache, metadataOf(found.GroupVersionKind)) {
		if err == nil && obj.UID == uid {
			return true
		}
	}
	return false
}
