// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"context"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// customStore is the store of one version of a custom resource. It is destroyed when its reads have ended: the CRD
// server's controllers read it without a request that could be waited for, and upstream's Cacher never wakes a reader that
// waits for a revision when it stops.
type customStore struct {
	storage.Interface
	reads    requests
	destroy  func()        // waits for reads, refuses further ones; may be called again
	released chan struct{} // closed when the owner has destroyed it
}

// newCustomStore takes over a store and the function that destroys it.
func newCustomStore(store storage.Interface, destroy func()) *customStore {
	s := &customStore{Interface: store, released: make(chan struct{})}
	s.destroy = sync.OnceFunc(func() {
		s.reads.close()
		destroy()
	})
	return s
}

// errReplaced is what a reader gets that came too late; clients retry it, and reach the store of the changed definition.
func errReplaced() error {
	return apierrors.NewTooManyRequests("the store of this resource is closed: its definition changed, or the server stops", 1)
}

// Get implements storage.Interface.
func (s *customStore) Get(ctx context.Context, key string, opts storage.GetOptions, object runtime.Object) error {
	if !s.reads.enter() {
		return errReplaced()
	}
	defer s.reads.leave()
	return s.Interface.Get(ctx, key, opts, object)
}

// GetList implements storage.Interface.
func (s *customStore) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	if !s.reads.enter() {
		return errReplaced()
	}
	defer s.reads.leave()
	return s.Interface.GetList(ctx, key, opts, list)
}
