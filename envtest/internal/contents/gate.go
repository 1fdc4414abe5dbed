// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package contents

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// gate holds requests that write while the state is replaced. The zero value is open.
type gate struct {
	mu     sync.Mutex
	shut   chan struct{}              // guarded by mu; closed when it opens; nil if it is open
	caches map[*awaitedCache]struct{} // guarded by mu; it opens when they show the new state, and refuses earlier writes
}

// close shuts the gate, which must be open, and returns the function that opens it.
func (g *gate) close() (open func()) {
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
func (g *gate) pass(ctx context.Context, refused error) (waited bool, err error) {
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
func (g *gate) await(c *awaitedCache) (end func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.caches == nil {
		g.caches = map[*awaitedCache]struct{}{}
	}
	g.caches[c] = struct{}{}
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.caches, c)
	}
}

// awaitCaches returns when no cache shows what was before the changes.
func (g *gate) awaitCaches(ctx context.Context, all changes) error {
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

// hasty returns the error of a request that writes what was decided on the state before, nil if it may wait: no cache is awaited,
// or nothing is stored.
func (g *gate) hasty(info *request.RequestInfo) error {
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
