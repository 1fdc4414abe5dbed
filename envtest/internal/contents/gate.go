// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package contents

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	crdserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/envtest/internal/custom"
	"github.com/tarn-dev/tarn/envtest/internal/etcd"
	"github.com/tarn-dev/tarn/envtest/internal/serving"
)

// changes are the changes of a state, by resource.
type changes map[schema.GroupResource][]serving.Change

// last is the revision of the last change of a resource, zero if there is none.
func (c changes) last(resource schema.GroupResource) int64 {
	of := c[resource]
	if len(of) == 0 {
		return 0
	}
	return of[len(of)-1].Revision
}

// Gate is what writes pass on the way to an etcd that the server has for itself. It holds them while the state is replaced, and knows
// the stores of built-in resources.
type Gate struct {
	etcd    *etcd.Server
	builtin *builtinStores
	// Removed is an admission plugin, which refuses owners that a replacement has removed.
	Removed *removedOwners

	mu     sync.Mutex
	shut   chan struct{}              // guarded by mu; closed when it opens; nil if it is open
	caches map[*awaitedCache]struct{} // guarded by mu; it opens when they show the new state, and refuses earlier writes
}

// NewGate returns an open gate.
func NewGate(own *etcd.Server) *Gate {
	return &Gate{etcd: own, builtin: newBuiltinStores(), Removed: newRemovedOwners(), caches: map[*awaitedCache]struct{}{}}
}

// Track decorates the store of a built-in resource so that it is known.
func (g *Gate) Track(resource schema.GroupResource, below generic.StorageDecorator) generic.StorageDecorator {
	return g.builtin.track(resource, below)
}

// Admit waits until nobody replaces the state. It returns the context of a write to this state, and how often the state was
// replaced before. With refused, Admit does not wait but returns that error.
func (g *Gate) Admit(ctx context.Context, refused error) (context.Context, uint64, error) {
	overtaken := refused
	if overtaken == nil {
		overtaken = custom.Overtaken()
	}
	for {
		// The context comes before the look at the gate: the state may be replaced between them.
		began, epoch := g.etcd.Request(ctx, overtaken)
		waited, err := g.pass(ctx, refused)
		if err != nil || !waited {
			return began, epoch, err
		}
	}
}

// reads are the verbs that are answered while the state is replaced.
var reads = []string{"get", "list", "watch"}

// Wrap holds back what writes, and lets it write only to the state that it has seen.
func (g *Gate) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		info, ok := request.RequestInfoFrom(req.Context())
		if !ok || !info.IsResourceRequest || slices.Contains(reads, info.Verb) {
			next.ServeHTTP(w, req)
			return
		}
		began, _, err := g.Admit(req.Context(), g.refusalOf(info))
		switch {
		case apierrors.IsConflict(err):
			gv := schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}
			responsewriters.ErrorNegotiated(err, crdserver.Codecs, gv, w, req)
			return
		case err != nil:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, req.WithContext(began))
	})
}

// close shuts the gate, which must be open, and returns the function that opens it.
func (g *Gate) close() (open func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	shut := make(chan struct{})
	g.shut = shut
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.shut = nil
		close(shut)
	}
}

// pass returns when the gate is open, and whether it was shut before. It does not wait, and returns refused, if there is such an error.
func (g *Gate) pass(ctx context.Context, refused error) (waited bool, err error) {
	g.mu.Lock()
	shut := g.shut
	g.mu.Unlock()
	switch {
	case shut == nil:
		return false, nil
	case refused != nil:
		return false, refused
	}
	select {
	case <-shut:
		return true, nil
	case <-ctx.Done():
		return true, fmt.Errorf("wait for the end of Reset or Restore: %w", context.Cause(ctx))
	}
}

// awaitedCache is a cache that must not show what was before when the gate opens.
type awaitedCache struct {
	client client.Client
	kinds  map[schema.GroupResource][]client.Object
}

// await adds a cache, and returns what takes it away.
func (g *Gate) await(c *awaitedCache) (end func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.caches[c] = struct{}{}
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.caches, c)
	}
}

// awaitCaches returns when no cache shows what was before the changes.
func (g *Gate) awaitCaches(ctx context.Context, all changes) error {
	g.mu.Lock()
	caches := slices.Collect(maps.Keys(g.caches))
	g.mu.Unlock()
	for _, c := range caches {
		for resource, kinds := range c.kinds {
			for _, kind := range kinds {
				if err := c.await(ctx, kind, all[resource]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (c *awaitedCache) await(ctx context.Context, kind client.Object, of []serving.Change) error {
	for _, change := range of {
		seen := kind.DeepCopyObject().(client.Object)
		err := serving.Poll(ctx, func() (bool, error) {
			err := c.client.Get(ctx, change.Name, seen)
			if ctx.Err() != nil {
				return false, context.Cause(ctx)
			}
			version, notNumber := strconv.ParseInt(seen.GetResourceVersion(), 10, 64)
			return err != nil || notNumber != nil || version >= change.Revision, nil
		})
		if err != nil {
			return fmt.Errorf("a cache given to AwaitCache shows %T %s as it was before: does its manager run, and its watch go on? %w", kind, change.Name, err)
		}
	}
	return nil
}

// refusalOf returns the error of a request that writes what was decided on the state before, nil if it may wait: no cache is awaited,
// or nothing is stored.
func (g *Gate) refusalOf(info *request.RequestInfo) error {
	if info.APIGroup == authorizationv1.GroupName || info.APIGroup == authenticationv1.GroupName {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.caches) == 0 {
		return nil
	}
	return apierrors.NewConflict(schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}, info.Name,
		fmt.Errorf("the state of the environment is being reset or restored: read again what this was decided on"))
}
