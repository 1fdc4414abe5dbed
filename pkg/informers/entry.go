// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/informer"
	"github.com/tarn-dev/tarn/internal/listwatch"
	"github.com/tarn-dev/tarn/internal/metrics"
	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/projection"
	"github.com/tarn-dev/tarn/internal/store"
	"github.com/tarn-dev/tarn/pkg/index"
	"github.com/tarn-dev/tarn/pkg/reader"
)

// MapEntry is an informer with the reader of its store.
type MapEntry struct {
	Informer toolscache.SharedIndexInformer
	Reader   *reader.CacheReader

	key    Key
	scope  *scope
	fields *index.Fields
	life   *life

	failures *listwatch.Failures
	pending  *pendingWrites   // nil of an informer that the user made
	metrics  *metrics.Metrics // nil of a view, and if there are none
	store    store.Store
	waiting  waiting
}

// life is how long an entry lives.
type life struct {
	ctx     context.Context // ends when the informer is removed or its map is stopped
	remove  context.CancelFunc
	release func() // makes the informer's name free again, once
	held    int    // how often; Shared.holding guards it

	startedBy string // see StartedBy; it does not change once the map has the entry
}

// newLife returns the life of an entry that begins.
func newLife(release func()) *life {
	ctx, remove := context.WithCancel(context.Background())
	return &life{ctx: ctx, remove: remove, release: sync.OnceFunc(release)}
}

// then lets release call f first. It is for the goroutine that makes the entry.
func (l *life) then(f func()) {
	release := l.release
	l.release = sync.OnceFunc(func() { f(); release() })
}

// end ends the life, and releases what it holds at once.
func (l *life) end() {
	l.remove()
	l.release()
}

// waiting says which calls wait for an entry.
type waiting struct {
	policy      FailurePolicy
	idleTimeout time.Duration         // how long the watch may bring nothing; zero is for ever
	optional    *optional             // nil of a kind that must be served
	wanted      atomic.Bool           // somebody reads the kind or listens to it: it is not indexed alone
	skipped     atomic.Pointer[Cause] // with which WaitForCacheSync did not wait
}

// scope is what an entry lists and watches.
type scope struct {
	namespace string // of the map
	// mapping returns the resource of now. An optional kind may come with another resource or scope than it was made with;
	// while it is dormant, this is what it had last, or a guess.
	mapping     func() *meta.RESTMapping
	namespaceOf func(*meta.RESTMapping) string
	rule        *projection.Rule // what is kept of the objects
	selector    *Selector        // of the map
}

// requested returns the namespace in requests; empty for all and for a cluster-scoped kind.
func (s *scope) requested() string { return s.namespaceOf(s.mapping()) }

// resource returns the resource in requests.
func (s *scope) resource() schema.GroupVersionResource { return s.mapping().Resource }

// newEntry makes the entry for key. Its informer does not run yet. Failed holds the failures of src.
func newEntry(o *Options, key Key, mapping *meta.RESTMapping, src listwatch.Source, failed *listwatch.Failures, known *optional) (*MapEntry, error) {
	e := &MapEntry{
		failures: failed,
		metrics:  o.Metrics,
		key:      key,
		scope:    &scope{o.Namespace, func() *meta.RESTMapping { return mapping }, o.namespaceOf, o.rule(key.GroupVersionKind), &o.Selector},
		fields:   index.NewFields(key.GroupVersionKind, o.Logger),
		life:     newLife(func() {}),
		waiting:  waiting{policy: o.onFailure(key.GroupVersionKind), idleTimeout: o.idleTimeout(key.GroupVersionKind)},
	}
	if known != nil {
		known.entry, e.waiting.optional, e.scope.mapping = e, known, known.source.Mapping
	}
	failed.Counters().Own = stopped

	if o.NewInformer != nil {
		lw := listwatch.New(src, e.listing(o))
		indexers := toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc}
		e.Informer = o.NewInformer(lw, src.Example(), jitter(o.ResyncPeriod), indexers)
		e.store = store.NewIndexer(e.Informer.GetIndexer(), e.fields)
	} else if err := e.newInformer(o, mapping, src); err != nil {
		return nil, err
	}
	if err := e.configure(o); err != nil {
		e.life.release()
		return nil, fmt.Errorf("setting up the informer of %s: %w", key, err)
	}
	e.store.SetScope(mapping.Scope.Name())
	e.Reader = o.newReader(e)
	return e, nil
}

// newReader returns the reader of the store of an entry.
func (o *Options) newReader(e *MapEntry) *reader.CacheReader {
	return reader.New(reader.Options{
		Store: e.store, GVK: e.key.GroupVersionKind, Fields: e.fields,
		Restriction: o.Selector.Describe(e.scope.rule.Describe()), DisableDeepCopy: o.UnsafeDisableDeepCopy,
	})
}

// newInformer makes an informer of package internal/informer, and its store.
func (e *MapEntry) newInformer(o *Options, mapping *meta.RESTMapping, src listwatch.Source) error {
	identifier, err := e.identify(o, mapping)
	if err != nil {
		return err
	}
	tuning := o.tuning(e.key.GroupVersionKind)
	lists := func(to informer.Receiver) toolscache.ListerWatcher {
		l := e.listing(o)
		l.Message, l.Each = to.Message, to.Each
		return listwatch.New(src, l)
	}
	made, err := informer.New(lists, informer.Options{
		Example:        src.Example(),
		Description:    e.key.String(),
		ResyncPeriod:   jitter(o.ResyncPeriod),
		NamespaceIndex: true,
		// Reads without a copy share the kept object, so there must be one.
		Decoded: o.UnsafeDisableDeepCopy || tuning.Storage == Decoded,
		Verify:  o.VerifyFlat,
		Window:  tuning.Window,
		Observer: informer.Observer{
			Listed: func() {
				e.failures.Listed()
				e.pending.listed()
				e.optional().listed() // reads begin
			},
			Lost: e.failures.Wake,
			WentBack: func(from, to uint64) {
				o.written.wentBack(e.key.GroupKind())
				e.pending.reset()
				o.Logger.Info("The resourceVersion of a kind went back, as after a restore of etcd: it is listed again, and handlers are told of every object",
					"kind", e.String(), "from", from, "to", to)
			},
		},
		Identifier: identifier,
	})
	if err != nil {
		e.life.release()
		return err
	}
	if reason := made.Form().Reason(); reason != nil {
		o.Logger.Info("The objects of a kind are kept decoded, which takes more memory", "kind", e.key.String(), "reason", reason.Error())
	}
	e.Informer = made
	kept := store.NewEngine(made.Engine(), made.Form(), clock.RealClock{})
	kept.Share(e.sharing(o))
	e.pending, e.store = &pendingWrites{entry: e, options: o, informer: made, kept: kept}, kept
	e.pending.begin()
	return nil
}

// listing says how the entry lists and watches.
func (e *MapEntry) listing(o *Options) listwatch.Options {
	return listwatch.Options{
		Selector: o.Selector.With(e.scope.rule.Requirements()), Bookmarks: o.EnableWatchBookmarks, Unstreamed: o.wides != nil,
		IdleTimeout: e.waiting.idleTimeout, Counters: e.failures.Counters(), Lists: e.failures.Relist(e.scope.rule.Changed()),
		Recent: func() bool { return o.written.has(e.key.GroupKind()) },
		Cut: func(silent time.Duration) {
			o.Logger.Info("A watch has brought nothing for longer than bookmarks allow: it is begun anew", "kind", e.String(), "silent", silent.Round(time.Millisecond).String())
		},
	}
}

// sharing says how reads without copies share decoded objects, and logs it.
func (e *MapEntry) sharing(o *Options) object.Sharing {
	logger := o.Logger.WithValues("kind", e.String())
	return object.Sharing{
		Budget: o.DecodedBudget,
		Kept: func(now object.SharedSize) {
			logger.Info("Objects of a kind are kept decoded as long as reads without copies go on", "objects", now.Objects, "bytes", now.Bytes)
		},
		Full: func(now object.SharedSize) {
			logger.Info("The budget for decoded objects is used up: reads without copies decode the other objects of the kind each time; see Tuning.DecodedBudget",
				"objects", now.Objects, "bytes", now.Bytes)
		},
	}
}

// identify registers the informer's name, under which client-go publishes its metrics. Each informer has a name of its own, because names
// must be unique in a process, and so each can be released by itself.
func (e *MapEntry) identify(o *Options, mapping *meta.RESTMapping) (toolscache.InformerNameAndResource, error) {
	if o.place != single {
		return toolscache.InformerNameAndResource{}, nil
	}
	scope := e.scope.namespace
	if scope == "" {
		scope = "*"
	}
	name := fmt.Sprintf("%s/%s/%s/%s", o.Name, e.key.Representation, mapping.Resource.GroupResource(), scope)
	if mapping.Resource.Version != "" {
		name += "@" + mapping.Resource.Version
	}
	identity, err := toolscache.NewInformerName(name)
	if err != nil {
		return toolscache.InformerNameAndResource{}, fmt.Errorf("naming the informer of %s: %w", e.key, err)
	}
	e.life.then(identity.Release) // once: a second time would release the name for another informer that has it by then
	return identity.WithResource(mapping.Resource), nil
}

// saidOnce returns an error handler that passes on an error of an isolated kind if it is the first one since the last success, or has
// another cause than the one before: reads tell of it meanwhile. The policy is the kind's own: the entry below views has
// another one. A Reflector calls the handler, in one goroutine.
func (e *MapEntry) saidOnce(policy FailurePolicy, next toolscache.WatchErrorHandlerWithContext) toolscache.WatchErrorHandlerWithContext {
	if policy != Isolate {
		return next
	}
	said := Listing
	return func(ctx context.Context, r *toolscache.Reflector, err error) {
		cause, failed := causeOf(err), e.failures.Last()
		if cause == said && failed != nil && failed.Attempts > 1 {
			return
		}
		said = cause
		next(ctx, r, err)
	}
}

func (e *MapEntry) configure(o *Options) error {
	handle := o.WatchErrorHandler
	if handle == nil {
		handle = e.saidOnce(o.onFailure(e.key.GroupVersionKind), toolscache.DefaultWatchErrorHandler)
	}
	err := e.Informer.SetWatchErrorHandlerWithContext(e.failures.Handler(e.optional().handler(handle)))
	// An informer that the user made may refuse a handler. This is an error only if the user has set a handler.
	if err != nil && o.WatchErrorHandler != nil {
		return err
	}
	return e.Informer.SetTransform(o.Transform)
}

// run runs the informer until the entry is removed or ctx ends. An informer that the user made may return earlier; run does not.
func (e *MapEntry) run(ctx context.Context, logger logr.Logger) {
	if e.life.ctx.Err() != nil {
		return // it was removed before
	}
	e.metrics.Runs(shown{e})
	defer e.metrics.Ended(shown{e})
	defer e.life.release()
	defer e.pending.close()
	stop := context.AfterFunc(ctx, e.life.remove)
	defer stop()
	e.Informer.RunWithContext(logr.NewContext(e.life.ctx, logger))
	<-e.life.ctx.Done()
}

// end stops the informer of an entry that is in use no more, and gives back what it holds in the
// process at once, because another entry may need the name.
func (e *MapEntry) end() {
	e.life.end()
	e.metrics.Removed(shown{e})
	if _, view := e.Informer.(*informer.View); !view { // those of a view are those of other views too
		e.store.DropPages()
		e.pending.close()
	}
}

// IndexField declares a field index, see [index.Fields.Declare].
func (e *MapEntry) IndexField(field string, extract client.IndexerFunc) error {
	return e.fields.Declare(e.Informer, field, extract)
}

// Up reports whether the informer has synced and, as far as is known, follows the API server. An object that does not fit the Go type of
// the kind prevents the informer from seeing any other object, until a complete list has no such object. An informer that the user made
// does not report complete lists, so after one decode error it is never up again.
func (e *MapEntry) Up() bool { return e.synced() && !e.failures.DecodeFailed() }

// String names the kind and the scope.
func (e *MapEntry) String() string { return describe(e.key, e.scope.namespace) }

// stopped returns the reason for which a watch ended whose context has ended with a cause.
func stopped(cause error) listwatch.Reason {
	switch {
	case errors.Is(cause, informer.ErrWentBack):
		return listwatch.Restored
	case errors.Is(cause, informer.ErrDormant):
		return listwatch.Absent
	}
	return listwatch.Stopped
}
