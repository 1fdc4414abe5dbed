// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/reader"
)

// StaleError is the error of a read that wants nothing older than a duration, of an informer that the API server has told nothing for
// longer. Match a pointer to this type with errors.As. A value never changes.
type StaleError struct {
	// Key is the kind and the representation that is cached. Namespace is the namespace to which
	// the informer is restricted; it is empty for all namespaces, and for a cluster-scoped kind.
	Key
	Namespace string
	// Age is the time since the last event, bookmark or list. MaxAge is what the read wanted, or, if nobody
	// has read, how long the watch may bring nothing.
	Age, MaxAge time.Duration
	// Err is what fails now, or nil if nothing is known to fail.
	Err error

	unread bool // it is no error of a read
}

// Error implements error.
func (e *StaleError) Error() string {
	wanted := "the read wants nothing older than"
	if e.unread {
		wanted = "expected something within"
	}
	text := fmt.Sprintf("the cache of %s was last told anything %s ago, and %s %s",
		describe(e.Key, e.Namespace), e.Age.Round(time.Millisecond), wanted, e.MaxAge)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns Err.
func (e *StaleError) Unwrap() error { return e.Err }

// Age returns the time since the API server last told the informer anything: an event, a bookmark or
// a list. An API server sends a bookmark about every minute, so an informer that follows is at most
// about a minute old. It is not known of an informer that the user made, and before the first list.
func (e *MapEntry) Age() (age time.Duration, known bool) {
	base := e.base()
	if base == nil {
		return 0, false
	}
	told := base.Told()
	return time.Since(told), !told.IsZero()
}

// Get reads an object as the Reader does. If an option of the read has a method MaxAge() time.Duration, as that of package
// cache has, the error is a *StaleError if the informer is older, or if its age is not known. The error is a *NotSyncedError
// if the object is not there because its transform failed, or because it is kept since a moment ago.
func (e *MapEntry) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if err := freshFor(e, opts); err != nil {
		return err
	}
	if err := e.Reader.Get(ctx, key, obj, opts...); err != nil {
		return e.explain(key, err)
	}
	return nil
}

// FreshReader returns the Reader. If an option of the list has a maximum age, the error is that of [MapEntry.Get].
func (e *MapEntry) FreshReader(opts []client.ListOption) (*reader.CacheReader, error) {
	return e.Reader, freshFor(e, opts)
}

// freshFor returns a *StaleError if one of the options wants nothing older than what the informer holds.
func freshFor[Option any](e *MapEntry, opts []Option) error {
	for _, o := range opts {
		if limit, ok := any(o).(interface{ MaxAge() time.Duration }); ok {
			if err := e.fresh(limit.MaxAge(), false); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *MapEntry) fresh(maxAge time.Duration, unread bool) error {
	age, known := e.Age()
	if known && age <= maxAge {
		return nil
	}
	stale := &StaleError{Key: e.key, Namespace: e.scope.requested(), Age: age, MaxAge: maxAge, unread: unread}
	if failed := e.failures.Last(); failed != nil {
		stale.Err = failed.Err
	}
	return stale
}

const (
	// stalledAfter is the number of idle timeouts after which an informer is stalled, and
	// stuckAfter that after which it is stuck if it has not even asked.
	stalledAfter = 2
	stuckAfter   = 5
)

// Stalled returns a *StaleError if the informer has synced, and the API server has told it nothing for
// longer than two watches may be silent. One of a kind that is isolated or dormant is not stalled.
func (e *MapEntry) Stalled() error {
	if e.waiting.policy == Isolate {
		return nil
	}
	return e.silentFor(stalledAfter)
}

// Stuck returns a *StaleError if the informer is stalled for long and has not begun a request either:
// then not the API server is at fault but the process.
func (e *MapEntry) Stuck() error {
	if begun := e.failures.Begun(); begun.IsZero() || time.Since(begun) <= e.limit(stuckAfter) {
		return nil
	}
	return e.silentFor(stuckAfter)
}

// longestIdle is more than the time for which a watch of a server without bookmarks may bring nothing before it ends and the next one begins.
const longestIdle = 11 * time.Minute

// limit returns how long an informer may have been told nothing.
func (e *MapEntry) limit(idleTimeouts time.Duration) time.Duration {
	return max(idleTimeouts*e.waiting.idleTimeout, longestIdle)
}

func (e *MapEntry) silentFor(idleTimeouts time.Duration) error {
	limit := e.limit(idleTimeouts)
	if e.waiting.idleTimeout <= 0 || !e.synced() {
		return nil
	}
	if _, known := e.Age(); !known {
		return nil
	}
	if e.failures.Last() == nil && time.Since(e.failures.Begun()) <= limit {
		return nil // the API server has answered a watch, and has nothing to tell
	}
	return e.fresh(limit, true)
}
