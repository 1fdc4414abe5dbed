// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher/delegator"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

// delegation says which lists the cache cannot answer and the storage does. The rules are
// upstream's: it implements the Helper of delegator.ShouldDelegateList.
type delegation struct{ *Cacher }

var _ delegator.Helper = delegation{}

// ShouldDelegateExactRV implements delegator.Helper.
func (d delegation) ShouldDelegateExactRV(resourceVersion string, recursive bool) (delegator.Result, error) {
	if !recursive || !keepsSnapshots() {
		return delegator.Result{ShouldDelegate: true}, nil
	}
	revision, err := d.config.Versioner.ParseResourceVersion(resourceVersion)
	if err != nil {
		return delegator.Result{}, err
	}
	return delegator.Result{ShouldDelegate: !d.hasExactly(revision)}, nil
}

// ShouldDelegateContinue implements delegator.Helper.
func (d delegation) ShouldDelegateContinue(token string, recursive bool) (delegator.Result, error) {
	if !recursive || !keepsSnapshots() {
		return delegator.Result{ShouldDelegate: true}, nil
	}
	_, revision, err := storage.DecodeContinue(token, d.config.ResourcePrefix)
	if err != nil {
		return delegator.Result{}, err
	}
	if revision > 0 {
		return delegator.Result{ShouldDelegate: !d.hasExactly(uint64(revision))}, nil
	}
	return d.ShouldDelegateConsistentRead()
}

// ShouldDelegateConsistentRead implements delegator.Helper.
func (d delegation) ShouldDelegateConsistentRead() (delegator.Result, error) {
	return delegator.Result{ConsistentRead: true, ShouldDelegate: !delegator.ConsistentReadSupported()}, nil
}

// hasExactly reports whether the cache can give the state of a revision, now or when it has
// come to it. What the storage has compacted away is for the storage to refuse.
func (d delegation) hasExactly(revision uint64) bool {
	if revision > d.engine.Revision() {
		return delegator.ConsistentReadSupported()
	}
	return revision >= d.engine.Oldest() && revision >= uint64(max(0, d.storage.CompactRevision()))
}

// keepsSnapshots is asked for each request, as upstream does.
func keepsSnapshots() bool {
	return utilfeature.DefaultFeatureGate.Enabled(features.ListFromCacheSnapshot)
}

// servesUnready reports that the storage answers a list while the cache is not ready: it is
// limited, and nothing has to be filtered.
func servesUnready(opts storage.ListOptions) bool {
	p := opts.Predicate
	return p.Limit > 0 && (p.Label == nil || p.Label.Empty()) && (p.Field == nil || p.Field.Empty())
}
