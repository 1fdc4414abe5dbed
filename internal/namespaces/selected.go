// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package namespaces finds the namespaces of a cache whose labels match, and those of them that are this replica's.
//
// # Concurrency
//
// All methods are safe for concurrent use. The functions of the user, which are those of Shard, are called without a lock: by Follow and Show.
package namespaces

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/tarn-dev/tarn/internal/inspected"
	"github.com/tarn-dev/tarn/pkg/informers"
)

// Shard has the terms of this replica. An ever higher term says that a namespace was another's in between.
type Shard interface {
	// Term returns the term of the replica in a namespace, or zero.
	Term(namespace string) uint64
	// Changed returns a channel that is closed when a later Term may return something else.
	Changed() <-chan struct{}
	// Member returns the name of the replica, and Members those of all that share the namespaces, as keys.
	Member() string
	Members() map[string]string
}

// Selected are the namespaces whose labels match. One watch of their metadata finds them. A nil value selects none. Make it with New.
type Selected struct {
	runs   *informers.Map // runs the watch; it has no informers
	found  *informers.Map // of the metadata, a part of runs
	entry  *informers.MapEntry
	shard  Shard
	labels string            // of the selector
	terms  map[string]uint64 // of the namespaces that are set; belongs to Follow
	known  chan struct{}     // closed when the first list of them is set
	logger logr.Logger
}

// pauses are between attempts to set the namespaces.
var pauses = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: 10, Cap: 30 * time.Second}

// New returns the namespaces that a selector selects, found by a watch that runs in a map. With a shard they are those alone in which it
// has a term; nil has all. New asks the API server which resource namespaces are.
func New(runs *informers.Map, selector labels.Selector, shard Shard, logger logr.Logger) (*Selected, error) {
	s := &Selected{
		runs: runs, found: runs.Part("", informers.Selector{Label: selector}), shard: shard, labels: selector.String(),
		known: make(chan struct{}), logger: logger,
	}
	ctx := context.Background()
	key := informers.Key{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Namespace"), Representation: informers.Metadata}
	var err error
	if s.entry, err = s.found.Get(ctx, key); err != nil {
		return nil, fmt.Errorf("cache tuning: Namespaces: %w", err)
	}
	return s, s.entry.Want(ctx, false)
}

// Runs returns the map in which the watch runs.
func (s *Selected) Runs() *informers.Map { return s.runs }

// Found returns the map that has the Namespaces that match.
func (s *Selected) Found() *informers.Map { return s.found }

// Show says which namespaces are selected.
func (s *Selected) Show(to *inspected.Namespaces) {
	if to.Selector = s.labels; s.shard != nil {
		to.Member, to.Ring = s.shard.Member(), slices.AppendSeq([]string{}, maps.Keys(s.shard.Members()))
		slices.Sort(to.Ring)
	}
}

// Follow sets the namespaces that match now, and whenever one begins or ends to match, or to be this replica's, until ctx ends.
func (s *Selected) Follow(ctx context.Context, set func(context.Context, []string) error) {
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
	shared := s.sharesChanged()
	for s.set(ctx, set) {
		select {
		case <-changed:
		case <-shared:
			shared = s.sharesChanged()
		case <-ctx.Done():
			return
		}
	}
}

// sharesChanged returns a channel that is closed when another namespace is this replica's, and never if all are.
func (s *Selected) sharesChanged() <-chan struct{} {
	if s.shard == nil {
		return nil
	}
	return s.shard.Changed()
}

// mine returns the namespaces that are this replica's, with their terms; and all of them but those that were set and have been another's
// since.
func (s *Selected) mine() (terms map[string]uint64, unbroken []string) {
	terms = map[string]uint64{}
	for _, namespace := range s.entry.Informer.GetStore().ListKeys() {
		term := uint64(1)
		if s.shard != nil {
			term = s.shard.Term(namespace)
		}
		if term == 0 {
			continue
		}
		terms[namespace] = term
		if was, set := s.terms[namespace]; !set || was == term {
			unbroken = append(unbroken, namespace)
		}
	}
	return terms, unbroken
}

// set sets the namespaces that match, and tries again if that fails. It returns false if ctx ends first.
func (s *Selected) set(ctx context.Context, set func(context.Context, []string) error) bool {
	err := pauses.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		err := s.setOnce(ctx, set)
		if err != nil && ctx.Err() == nil {
			s.logger.Info("The namespaces that match could not be set, which is tried again", "reason", err.Error())
		}
		return err == nil, nil
	})
	if err == nil && !s.IsKnown() {
		close(s.known)
	}
	return err == nil
}

func (s *Selected) setOnce(ctx context.Context, set func(context.Context, []string) error) error {
	terms, unbroken := s.mine()
	if s.IsKnown() && maps.Equal(terms, s.terms) {
		return nil
	}
	if len(unbroken) < len(terms) { // the others leave first, so handlers are told of all that they have
		if err := set(ctx, unbroken); err != nil {
			return err
		}
	}
	if err := set(ctx, slices.Collect(maps.Keys(terms))); err != nil {
		return err
	}
	s.terms = terms
	return nil
}

// IsKnown reports whether the namespaces have been set once. Nobody has to wait if no labels select them.
func (s *Selected) IsKnown() bool { return s == nil || toolscache.IsDone(s) }

// Name implements toolscache.DoneChecker.
func (s *Selected) Name() string { return "namespaces that match" }

// Done implements toolscache.DoneChecker.
func (s *Selected) Done() <-chan struct{} { return s.known }

// Wait waits until the namespaces are known. It returns an error as soon as they cannot be listed.
func (s *Selected) Wait(ctx context.Context) error {
	if s.IsKnown() {
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

// WaitForCacheSync is Wait for that of a cache: others go on without them if the policy of their kind says so.
func (s *Selected) WaitForCacheSync(ctx context.Context) bool {
	switch {
	case s.IsKnown():
		return true
	case !s.found.WaitForCacheSync(ctx):
		return false
	case !s.entry.Informer.HasSynced():
		return true
	}
	return waitFor(ctx, s.known)
}

// waitFor reports whether a channel was closed before ctx ended.
func waitFor(ctx context.Context, closed <-chan struct{}) bool {
	select {
	case <-closed:
		return true
	case <-ctx.Done():
		return false
	}
}
