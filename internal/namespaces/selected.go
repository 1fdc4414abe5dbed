// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package namespaces finds the Namespaces that match a selector, and those of this replica.
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
	"github.com/tarn-dev/tarn/internal/signal"
	"github.com/tarn-dev/tarn/pkg/informers"
)

// Shard is the interface of Tuning.Shard in package cache, which documents its methods.
type Shard interface {
	Term(namespace string) uint64
	Changed() <-chan struct{}
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

// New returns the namespaces that a selector selects, found by a watch that runs in a map. A shard restricts them to those in which it
// has a term; nil restricts nothing. New asks the API server which resource namespaces are.
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

// Follow calls set with the namespaces, now and whenever they change, until ctx ends.
func (s *Selected) Follow(ctx context.Context, set func(context.Context, []string) error) {
	changed := make(chan struct{}, 1)
	tell := func(any) {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	handle, err := s.entry.Informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: tell, DeleteFunc: tell})
	if err != nil || !signal.WaitFor(ctx, handle.HasSyncedChecker().Done()) {
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

// sharesChanged returns a channel that is closed when terms may have changed. It is nil without a shard.
func (s *Selected) sharesChanged() <-chan struct{} {
	if s.shard == nil {
		return nil
	}
	return s.shard.Changed()
}

// mine returns the namespaces of this replica with their terms. Unbroken has all of them but those that are set with an older term.
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
	if len(unbroken) < len(terms) { // a namespace with a new term leaves first, so handlers are told of all its objects
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
	if !signal.WaitFor(ctx, s.known) {
		return fmt.Errorf("the namespaces of the cache are known, and not set yet: %w", context.Cause(ctx))
	}
	return nil
}

// WaitForCacheSync waits as that of a cache does. It stops waiting for Namespaces that cannot be listed, if their OnFailure says so.
func (s *Selected) WaitForCacheSync(ctx context.Context) bool {
	switch {
	case s.IsKnown():
		return true
	case !s.found.WaitForCacheSync(ctx):
		return false
	case !s.entry.Informer.HasSynced():
		return true
	}
	return signal.WaitFor(ctx, s.known)
}
