// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/tarn-dev/tarn/pkg/informers"
)

// selectedNamespaces are the namespaces whose labels match. One watch of their metadata finds them. A nil value selects none.
type selectedNamespaces struct {
	runs   *informers.Map // runs the watch; it has no informers
	found  *informers.Map // of the metadata, a part of runs
	entry  *informers.MapEntry
	known  chan struct{} // closed when the first list of them is set
	logger logr.Logger
}

// pauses are between attempts to set the namespaces.
var pauses = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: 10, Cap: 30 * time.Second}

// newSelectedNamespaces returns the namespaces that a selector selects. It asks the API server which resource they are.
func newSelectedNamespaces(shared *informers.Shared, selector labels.Selector) (*selectedNamespaces, error) {
	runs := informers.NewMap(mapOptions(shared, "", Config{}, meta.RESTScopeNameRoot))
	s := &selectedNamespaces{
		runs: runs, found: runs.Part("", informers.Selector{Label: selector}), known: make(chan struct{}), logger: shared.Logger,
	}
	ctx := context.Background()
	key := informers.Key{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Namespace"), Representation: informers.Metadata}
	var err error
	if s.entry, err = s.found.Get(ctx, key); err != nil {
		return nil, fmt.Errorf("cache tuning: Namespaces: %w", err)
	}
	return s, s.entry.Want(ctx, false)
}

// follow sets the namespaces that match now, and whenever one begins or ends to match, until ctx ends.
func (s *selectedNamespaces) follow(ctx context.Context, set func(context.Context, []string) error) {
	changed := make(chan struct{}, 1)
	tell := func(any) {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	handle, err := s.entry.Informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: tell, DeleteFunc: tell})
	if err != nil || !waitFor(ctx, handle.HasSyncedChecker().Done()) {
		return // the cache has ended
	}
	for s.set(ctx, set) {
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// set sets the namespaces that match, and tries again if that fails. It returns false if ctx ends first.
func (s *selectedNamespaces) set(ctx context.Context, set func(context.Context, []string) error) bool {
	err := pauses.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		err := set(ctx, s.entry.Informer.GetStore().ListKeys())
		if err != nil && ctx.Err() == nil {
			s.logger.Info("The namespaces that match could not be set, which is tried again", "reason", err.Error())
		}
		return err == nil, nil
	})
	if err == nil && !s.isKnown() {
		close(s.known)
	}
	return err == nil
}

// isKnown reports whether the namespaces have been set once. Nobody has to wait if no labels select them.
func (s *selectedNamespaces) isKnown() bool { return s == nil || toolscache.IsDone(s) }

// Name implements toolscache.DoneChecker.
func (s *selectedNamespaces) Name() string { return "namespaces that match" }

// Done implements toolscache.DoneChecker.
func (s *selectedNamespaces) Done() <-chan struct{} { return s.known }

// wait waits until the namespaces are known. It returns an error as soon as they cannot be listed.
func (s *selectedNamespaces) wait(ctx context.Context) error {
	if s.isKnown() {
		return nil
	}
	if err := s.entry.TryForSync(ctx); err != nil {
		return fmt.Errorf("the namespaces of the cache are not known: %w", err)
	}
	if !waitFor(ctx, s.known) {
		return fmt.Errorf("the namespaces of the cache match, and are not set yet: %w", context.Cause(ctx))
	}
	return nil
}

// waitForCacheSync is wait for [informerCache.WaitForCacheSync]: others go on without them if the policy of their kind says so.
func (s *selectedNamespaces) waitForCacheSync(ctx context.Context) bool {
	switch {
	case s.isKnown():
		return true
	case !s.found.WaitForCacheSync(ctx):
		return false
	case !s.entry.Informer.HasSynced():
		return true
	}
	return waitFor(ctx, s.known)
}

// awaited returns what an informer or a handler waits for: now, if the namespaces were known; or until they are, and then for what
// later returns at the first look.
func (s *selectedNamespaces) awaited(known bool, now []syncing, later func() []syncing) func() []syncing {
	if known {
		return fixed(now)
	}
	once := sync.OnceValue(later)
	return func() []syncing {
		if !s.isKnown() {
			return []syncing{{DoneChecker: s}}
		}
		return once()
	}
}

// scopesToRead is scopesOf for a read, which waits until the namespaces that match are known.
func (c *informerCache) scopesToRead(ctx context.Context, gvk schema.GroupVersionKind) (scopes, error) {
	s, err := c.kinds.scopesOf(ctx, gvk)
	if err != nil || s.live == nil || c.kinds.live.selected.isKnown() {
		return s, err
	}
	if err := c.checkStarted(gvk); err != nil {
		return s, err
	}
	if err := c.kinds.live.selected.wait(ctx); err != nil {
		return s, err
	}
	return c.kinds.scopesOf(ctx, gvk)
}
