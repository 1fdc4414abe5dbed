// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package custom

import (
	"context"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tarn-dev/tarn/envtest/internal/serving"
	"github.com/tarn-dev/tarn/envtest/internal/stores"
)

// customStore is the store of one version of a custom resource. It is destroyed when its reads have ended: the CRD
// server's controllers read it without a request that could be waited for, and upstream's Cacher never wakes a reader that
// waits for a revision when it stops.
type customStore struct {
	storage.Interface
	reads    serving.Requests
	live     stores.LiveStore
	number   int           // counts those of the resource; set before others know of it
	destroy  func()        // waits for reads, refuses further ones; may be called again
	released chan struct{} // closed when the owner has destroyed it

	cleanup *cleanup      // of the definition; nil if the state is never replaced
	cleaned atomic.Uint64 // how often the state had been replaced when the cleanup began, plus one; zero before
}

// newCustomStore takes over a store and the function that destroys it.
func newCustomStore(store storage.Interface, destroy func()) *customStore {
	s := &customStore{Interface: store, released: make(chan struct{})}
	s.destroy = sync.OnceFunc(func() {
		s.reads.Close()
		destroy()
	})
	return s
}

// errReplaced is what a reader gets that came too late; clients retry it, and reach the store of the changed definition.
func errReplaced() error {
	return apierrors.NewTooManyRequests("the store of this resource is closed: its definition changed, or the server stops", 1)
}

// cleanup limits the CRD finalizer, which deletes a deleted CRD's objects. The finalizer calls the stores without a request, and would
// go on when Reset or Restore have brought the definition and its objects back. It works on each definition in one goroutine at a time.
type cleanup struct {
	// admit waits for a Reset; it returns a write context and the reset count.
	admit func(ctx context.Context) (context.Context, uint64, error)
	// terminating reports whether a resource's definition is being deleted, as far as the CRD server knows. Reset and Restore
	// end when it knows the new state.
	terminating func(schema.GroupResource) bool
}

// Overtaken is what a request gets that began before the state was replaced, and would have written after it.
func Overtaken() error {
	return apierrors.NewTooManyRequests("the state of the environment was reset or restored while the request ran: send it again", 1)
}

// own ties a finalizer's call to the current state: it waits while the state is replaced, and returns the call's context. The error ends its
// work if the state has been replaced since it began: what it deletes may have come back. Work that begins is not refused while
// the definition is being deleted: the finalizer writes each failure into the definition's status, and may then wait for a change
// of the definition that never comes.
func (s *customStore) own(ctx context.Context, begins bool) (context.Context, error) {
	if _, ok := request.RequestInfoFrom(ctx); ok || s.cleanup == nil {
		return ctx, nil
	}
	current, epoch, err := s.cleanup.admit(ctx)
	if err != nil {
		return nil, err
	}
	if begins {
		s.cleaned.Store(epoch + 1)
	}
	if s.cleaned.Load() != epoch+1 || !s.cleanup.terminating(s.live.Resource) {
		return nil, Overtaken()
	}
	return current, nil
}

// beginsCleanup reports whether a list is the first call of the finalizer's work, for what is in all namespaces. The lists
// by which it deletes have a namespace, which is empty for cluster-scoped objects. The lists by which it waits have a
// deadline.
func beginsCleanup(ctx context.Context) bool {
	_, scoped := request.NamespaceFrom(ctx)
	_, waits := ctx.Deadline()
	return !scoped && !waits
}

// Delete implements storage.Interface.
func (s *customStore) Delete(
	ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions, validate storage.ValidateObjectFunc,
	existing runtime.Object, opts storage.DeleteOptions,
) error {
	ctx, err := s.own(ctx, false)
	if err != nil {
		return err
	}
	return s.Interface.Delete(ctx, key, out, preconditions, validate, existing, opts)
}

// GuaranteedUpdate implements storage.Interface.
func (s *customStore) GuaranteedUpdate(
	ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool, preconditions *storage.Preconditions,
	update storage.UpdateFunc, existing runtime.Object,
) error {
	ctx, err := s.own(ctx, false)
	if err != nil {
		return err
	}
	return s.Interface.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions, update, existing)
}

// Get implements storage.Interface.
func (s *customStore) Get(ctx context.Context, key string, opts storage.GetOptions, object runtime.Object) error {
	if !s.reads.Enter() {
		return errReplaced()
	}
	defer s.reads.Leave()
	return s.Interface.Get(ctx, key, opts, object)
}

// GetList implements storage.Interface.
func (s *customStore) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	ctx, err := s.own(ctx, beginsCleanup(ctx)) // before it counts as a read, for which a store waits that is replaced
	if err != nil {
		return err
	}
	if !s.reads.Enter() {
		return errReplaced()
	}
	defer s.reads.Leave()
	return s.Interface.GetList(ctx, key, opts, list)
}
