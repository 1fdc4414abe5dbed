// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package custom

import (
	"context"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"

	"github.com/tarn-dev/tarn/envtest/internal/stores"
)

const (
	// establishedDelay is how long the CRD server holds back creates of a kind after its condition Established has
	// changed, so that other API servers of the cluster can learn of it. There are none here. It looks at the time alone:
	// a create that comes while the condition is still false, and the names are accepted already, is held back too.
	establishedDelay = 2 * time.Second

	// establishedShift puts the time of establishment safely before that delay; the time has a resolution of a second.
	establishedShift = 3 * time.Second
)

// EstablishedEarlier decorates the store of CustomResourceDefinitions, and no other: a change of the condition Established is stored
// with a time a few seconds past, so that the first custom resource does not wait.
func EstablishedEarlier(resource schema.GroupResource, below generic.StorageDecorator) generic.StorageDecorator {
	if resource != stores.CRDs {
		return below
	}
	return stores.Around(below, func(_ stores.Asked, next stores.Next) (storage.Interface, factory.DestroyFunc, error) {
		store, destroy, err := next()
		if err != nil {
			return nil, nil, err
		}
		return establishedStore{store}, destroy, nil
	})
}

// establishedStore changes what updates write; conditions of new definitions are dropped before they get here.
type establishedStore struct{ storage.Interface }

// GuaranteedUpdate implements storage.Interface.
func (s establishedStore) GuaranteedUpdate(
	ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool, preconditions *storage.Preconditions,
	update storage.UpdateFunc, existing runtime.Object,
) error {
	shifted := func(input runtime.Object, meta storage.ResponseMeta) (runtime.Object, *uint64, error) {
		output, ttl, err := update(input, meta)
		if crd, ok := output.(*apiextensions.CustomResourceDefinition); ok && err == nil {
			shiftEstablished(crd, time.Now())
		}
		return output, ttl, err
	}
	return s.Interface.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions, shifted, existing)
}

// shiftEstablished moves the time of a condition Established that has just changed; older ones stay as they are.
func shiftEstablished(crd *apiextensions.CustomResourceDefinition, now time.Time) {
	for i := range crd.Status.Conditions {
		condition := &crd.Status.Conditions[i]
		if condition.Type == apiextensions.Established && now.Sub(condition.LastTransitionTime.Time) < establishedDelay {
			condition.LastTransitionTime = metav1.NewTime(condition.LastTransitionTime.Add(-establishedShift))
		}
	}
}
