// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"fmt"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/tarn-dev/tarn/internal/listwatch"
	"github.com/tarn-dev/tarn/internal/resolver"
	"github.com/tarn-dev/tarn/internal/served"
)

// presence is where an entry of an optional kind is.
type presence int32

const (
	present  presence = iota // it follows the API server, or tries to
	arriving                 // the kind is served again, and the first list is not complete
	dormant                  // the kind is not served
)

// optional is what an entry of an optional kind has in addition: it is dormant while the API server does not serve the kind.
type optional struct {
	entry   *MapEntry
	options *Options
	source  *served.Source
	state   atomic.Int32          // a presence
	other   atomic.Bool           // it is dormant because the kind is served with another scope than the map holds
	away    atomic.Pointer[error] // why the kind cannot be cached now, if it is dormant and is served, or might be

	mapping *meta.RESTMapping // nil while it is dormant; belongs to tell
	said    bool              // that it is absent since the start; belongs to tell
}

// newOptional returns what makes an entry optional, with its source, by what the RESTMapper has answered.
func (o *Options) newOptional(key Key, answer *mapped, failed *listwatch.Failures, watched Key) (*optional, error) {
	known, mapping := &optional{options: o, mapping: answer.mapping}, answer.mapping
	if mapping == nil {
		mapping = resolver.Guess(key.GroupVersionKind)
		if !meta.IsNoMatchError(answer.err) {
			known.away.Store(&answer.err)
		}
	}
	client := failed.Client(o.HTTPClient)
	source, err := served.NewSource(mapping, func(m *meta.RESTMapping) (listwatch.Source, error) {
		return newSource(o, client, watched, m)
	})
	known.source = source
	return known, err
}

func (e *MapEntry) optional() *optional { return e.waiting.optional }

func (o *optional) is(p presence) bool { return o != nil && presence(o.state.Load()) == p }

// follow lets the entry be told from now on, and makes it dormant if the kind is absent or has another scope than the map holds.
func (o *optional) follow() (forget func()) {
	known := o.mapping
	if known == nil || !o.options.holds(known.Scope) {
		o.mapping = nil
		o.other.Store(known != nil)
		o.rest()
	}
	return o.options.Served.Follow(o.entry.key.GroupVersionKind, known, o.tell)
}

// rest makes the entry dormant.
func (o *optional) rest() {
	o.state.Store(int32(dormant))
	if base := o.entry.base(); base != nil {
		base.Sleep() // before Forget: what ends thereby is no failure
	}
	o.entry.failures.Forget()
}

// tell takes what is known of the kind. The entry may have been removed meanwhile. It logs one line for each change.
func (o *optional) tell(now served.State) {
	if o.entry.base() == nil || o.entry.life.ctx.Err() != nil {
		return
	}
	logger := o.options.Logger.WithValues("kind", o.entry.String())
	switch was := o.mapping; {
	case now.Err != nil && o.entry.synced(): // what was listed stays, because nobody has deleted it
	case now.Err != nil:
		if o.sleep(now.Err) {
			logger.Info("A kind cannot be served now: it is cached when it can", "reason", o.why().Error())
		}
	case now.Verbs != nil:
		before, unfit := o.away.Load(), &verbsError{o.entry.key, now.Verbs}
		if o.sleep(unfit) || before == nil || (*before).Error() != unfit.Error() {
			logger.Info("A kind is served, and cannot be cached", "reason", unfit.Error())
		}
	case now.Mapping == nil:
		if o.sleep(nil) {
			logger.Info("A kind is not served any more: its objects are gone, and it is cached again when it is back")
		} else if !o.said {
			logger.Info("A kind is not served: it is cached when it is")
		}
	case was == nil || now.Mapping.Resource != was.Resource || now.Mapping.Scope.Name() != was.Scope.Name():
		o.arrive(now.Mapping)
	default:
		o.away.Store(nil)
	}
	o.said = true
}

// sleep makes the entry dormant, and reports whether it was not. Why is nil if the kind is absent.
func (o *optional) sleep(why error) (changed bool) {
	o.other.Store(false)
	if why == nil {
		o.away.Store(nil)
	} else {
		o.away.Store(&why)
	}
	if o.mapping == nil {
		return false
	}
	o.mapping = nil
	o.rest()
	return true
}

// arrive begins to list and watch.
func (o *optional) arrive(mapping *meta.RESTMapping) {
	logger := o.options.Logger.WithValues("kind", o.entry.String())
	o.away.Store(nil)
	o.other.Store(!o.options.holds(mapping.Scope))
	if o.other.Load() {
		o.mapping = mapping
		logger.Info("A kind is served with another scope than before: reads use other informers; event handlers must be added to those", "scope", mapping.Scope.Name())
		o.rest()
		return
	}
	if err := o.source.Bind(mapping); err != nil {
		logger.Error(err, "A kind is served, and cannot be cached: it is tried again when discovery answers next")
		o.sleep(err)
		return
	}
	o.mapping = mapping
	o.entry.store.SetScope(mapping.Scope.Name())
	base := o.entry.base()
	o.state.Store(int32(arriving))
	base.Sleep()                   // if it was not: the kind is another one now
	o.state.Store(int32(arriving)) // a list of before may have ended it until then
	o.entry.pending.begin()
	o.entry.failures.Forget()
	base.Wake()
	logger.Info("A kind is served: it is cached from now on", "resource", mapping.Resource.String())
}

// listed notes that a list is complete.
func (o *optional) listed() {
	if o != nil && o.state.CompareAndSwap(int32(arriving), int32(present)) {
		o.entry.failures.Wake()
	}
}

// why returns the error of a read while the kind is not served.
func (o *optional) why() *NotSyncedError {
	key := o.entry.key
	reason := &NotSyncedError{Key: key, Namespace: o.entry.scope.namespace, Cause: NotServed}
	switch err := o.away.Load(); {
	case o.other.Load():
		absent := &meta.NoKindMatchError{GroupKind: key.GroupKind(), SearchedVersions: []string{key.Version}}
		reason.Err = fmt.Errorf("%s is served with another scope than this informer is for: %w", key, absent)
	case err == nil:
		absent := &meta.NoKindMatchError{GroupKind: key.GroupKind(), SearchedVersions: []string{key.Version}}
		reason.Err = key.MappingError(absent)
	case causeOf(*err) == NotWatchable:
		reason.Cause, reason.Err = NotWatchable, *err
	default:
		reason.Cause, reason.Err = causeOf(*err), &awayError{key, *err}
	}
	return reason
}

// handler returns an error handler that passes over what comes of the end of the kind: tell logs that, in one line.
func (o *optional) handler(next toolscache.WatchErrorHandlerWithContext) toolscache.WatchErrorHandlerWithContext {
	if o == nil {
		return next
	}
	return func(ctx context.Context, r *toolscache.Reflector, err error) {
		gone := causeOf(err) == NotServed
		if gone || resolver.MayBeAway(err) && !o.entry.synced() {
			o.options.Served.Refused(o.entry.key.GroupVersionKind)
		}
		if !gone {
			next(ctx, r, err)
		}
	}
}
