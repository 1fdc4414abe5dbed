// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/tarn-dev/tarn/pkg/informers"
)

// StaleError is the error of a read with [MaxAge] of a kind that is older. Match a pointer to this
// type with errors.As.
type StaleError = informers.StaleError

// Ready returns a check for mgr.AddReadyzCheck. It fails as long as the cache is not started, and
// names each kind that has not synced, with its cause, and each one that is stalled: the API server
// has told nothing about it for twice the idle timeout (TuningByObject.WatchSilence), for eleven minutes at least, and has
// answered no watch. Kinds that are isolated do not count, nor do informers of leases: who has a lease knows. It returns an error for a cache that this
// package has not made.
func Ready(c Cache) healthz.Checker {
	ready := check(c, (*informerCache).configured, func(e *informers.MapEntry) error {
		if reason := e.NotReady(); reason != nil {
			return reason
		}
		return e.Stalled()
	})
	return func(r *http.Request) error {
		if ours, ok := c.(*informerCache); ok && !ours.life.started.Load() {
			return &ErrCacheNotStarted{}
		}
		return ready(r)
	}
}

// Live returns a check for mgr.AddLivezCheck, or AddHealthzCheck. It fails if a restart may help: a
// kind is stalled for five times the idle timeout, eleven minutes at least, and the process has not asked the API server in
// this time. It does not fail because the API server is away or forbids a kind, nor because the
// cache is not started. It returns an error for a cache that this package has not made.
func Live(c Cache) healthz.Checker {
	return check(c, (*informerCache).maps, (*informers.MapEntry).Stuck)
}

// check returns a check that joins what is wrong with each informer of a cache in some of its maps.
func check(c Cache, of func(*informerCache) []*informers.Map, wrong func(*informers.MapEntry) error) healthz.Checker {
	ours, ok := c.(*informerCache)
	if !ok {
		return func(*http.Request) error {
			return fmt.Errorf("cannot check a %T: pass a cache as New or With of package github.com/tarn-dev/tarn/pkg/cache made it", c)
		}
	}
	return func(*http.Request) error {
		var all []error
		for _, m := range of(ours) {
			for _, entry := range m.Entries() {
				if err := wrong(entry); err != nil {
					all = append(all, err)
				}
			}
		}
		return errors.Join(all...)
	}
}

// MaxAge is an option of Get and List that wants nothing older than a duration: if the API server has
// told the cache nothing about the kind for longer, neither an event nor a bookmark, the read returns
// a *StaleError. An API server sends a bookmark about every minute, so shorter durations fail for
// kinds that seldom change. The option works with a cache of this package, and with a client that
// reads from it; others ignore it.
func MaxAge(d time.Duration) interface {
	client.GetOption
	client.ListOption
} {
	return maxAge(d)
}

// maxAge is an option of reads.
type maxAge time.Duration

// ApplyToGet implements client.GetOption. The informers look at the option themselves.
func (maxAge) ApplyToGet(*client.GetOptions) {}

// ApplyToList implements client.ListOption. The informers look at the option themselves.
func (maxAge) ApplyToList(*client.ListOptions) {}

// MaxAge returns the duration.
func (d maxAge) MaxAge() time.Duration { return time.Duration(d) }
