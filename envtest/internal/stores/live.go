// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"context"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tarn-dev/tarn/envtest/internal/serving"
	"github.com/tarn-dev/tarn/envtest/internal/storagekey"
)

// Nobody is a name that can be asked for, and that no object can have.
const Nobody = "-"

// LiveStore is the store of a resource, with what a read needs.
type LiveStore struct {
	Resource schema.GroupResource
	Prefix   string
	NewFunc  func() runtime.Object
	Store    storage.Interface
}

// Await returns when reads of the store see the revision. A watch cache that begins anew will, and a store that is closed is not
// read any more.
func (l LiveStore) Await(ctx context.Context, revision int64) error {
	options := storage.GetOptions{IgnoreNotFound: true, ResourceVersion: strconv.FormatInt(revision, 10)}
	return serving.Poll(ctx, func() (bool, error) {
		err := l.Store.Get(ctx, storagekey.Below(l.Prefix, types.NamespacedName{Name: Nobody}), options, l.NewFunc())
		switch {
		case apierrors.IsTooManyRequests(err):
			return true, nil
		case storage.IsTooLargeResourceVersion(err):
			return false, nil
		}
		return true, err
	})
}
