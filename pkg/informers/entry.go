// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/informer"
	"github.com/tarn-dev/tarn/internal/listwatch"
	"github.com/tarn-dev/tarn/pkg/index"
	"github.com/tarn-dev/tarn/pkg/reader"
)

// MapEntry is an informer with the reader of its store.
type MapEntry struct {
	Informer toolscache.SharedIndexInformer
	Reader   *reader.CacheReader

	key       Key
	namespace string
	fields    *index.Fields
	release   func() // makes the informer's name free again and ends its metrics, once
	lagged    func() // counts a handler that lagged

	// ctx ends when the informer is removed or its map is stopped.
	ctx    context.Context
	remove context.CancelFunc

	failures *listwatch.Failures
	own      *ownWrites // nil of an informer that the user made
}

// newEntry makes the entry for key. Its informer does not run yet. Failed holds the failures of
// src.
func newEntry(o *Options, key Key, mapping *meta.RESTMapping, src listwatch.Source, failed *listwatch.Failures) (*MapEntry, error) {
	e := &MapEntry{
		failures:  failed,
		key:       key,
		namespace: o.Namespace,
		fields:    index.NewFields(key.GroupVersionKind, o.Logger),
		release:   func() {},
	}
	e.ctx, e.remove = context.WithCancel(context.Background())

	var (
		store reader.Store
		err   error
	)
	if o.NewInformer != nil {
		lw := listwatch.New(src, listwatch.Options{Selector: o.Selector, Bookmarks: o.EnableWatchBookmarks})
		indexers := toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc}
		e.Informer = o.NewInformer(lw, src.Example(), jitter(o.ResyncPeriod), indexers)
		store = reader.NewIndexerStore(e.Informer.GetIndexer(), e.fields)
	} else if store, err = e.newInformer(o, mapping, src); err != nil {
		return nil, err
	}
	if err := e.configure(o); err != nil {
		e.release()
		return nil, fmt.Errorf("setting up the informer of %s: %w", key, err)
	}
	e.Reader = reader.New(reader.Options{
		Store:           store,
		GVK:             key.GroupVersionKind,
		Scope:           mapping.Scope.Name(),
		Fields:          e.fields,
		Restriction:     o.Selector.Describe(),
		DisableDeepCopy: o.UnsafeDisableDeepCopy,
	})
	return e, nil
}

// newInformer makes an informer of package internal/informer, and returns its store.
func (e *MapEntry) newInformer(o *Options, mapping *meta.RESTMapping, src listwatch.Source) (reader.Store, error) {
	identifier, err := e.identify(o.Name, mapping)
	if err != nil {
		return nil, err
	}
	tuning := o.tuning(e.key.GroupVersionKind)
	lists := func(to informer.Receiver) toolscache.ListerWatcher {
		return listwatch.New(src, listwatch.Options{
			Selector: o.Selector, Bookmarks: o.EnableWatchBookmarks, Message: to.Message, Each: to.Each,
		})
	}
	made, err := informer.New(lists, informer.Options{
		Example:        src.Example(),
		Description:    e.key.String(),
		ResyncPeriod:   jitter(o.ResyncPeriod),
		NamespaceIndex: true,
		// Reads without a copy share the kept object, so there must be one.
		Decoded:    o.UnsafeDisableDeepCopy || ptr.Deref(tuning.Decoded, false),
		Verify:     o.VerifyFlat,
		Window:     tuning.Window,
		Lagged:     func() { e.lagged() },
		Listed:     e.failures.Listed,
		Identifier: identifier,
	})
	if err != nil {
		e.release()
		return nil, err
	}
	if reason := made.Form().Reason(); reason != nil {
		o.Logger.Info("The objects of a kind are kept decoded, which takes more memory", "kind", e.key.String(), "reason", reason.Error())
	}
	e.Informer = made
	store := reader.NewEngineStore(made.Engine(), made.Form())
	store.Share(e.sharing(o))
	e.own = newOwnWrites(o, e, mapping, made, store)
	var end func()
	e.lagged, end = o.Metrics.follow(o.Name, e, store)
	release := e.release
	e.release = sync.OnceFunc(func() { release(); end() })
	return store, nil
}

// sharing says how reads without copies share decoded objects, and logs it.
func (e *MapEntry) sharing(o *Options) reader.Sharing {
	logger := o.Logger.WithValues("kind", e.String())
	return reader.Sharing{
		Budget: o.DecodedBudget,
		Kept: func(now reader.SharedSize) {
			logger.Info("Objects of a kind are kept decoded as long as reads without copies go on", "objects", now.Objects, "bytes", now.Bytes)
		},
		Full: func(now reader.SharedSize) {
			logger.Info("The budget for decoded objects is used up: reads without copies decode the other objects of the kind each time; see Tuning.DecodedBudget",
				"objects", now.Objects, "bytes", now.Bytes)
		},
	}
}

// identify registers the informer's name, under which client-go publishes its metrics. Each
// informer has a name of its own, because names must be unique in a process, and so each can be
// released by itself.
func (e *MapEntry) identify(cache string, mapping *meta.RESTMapping) (toolscache.InformerNameAndResource, error) {
	scope := e.namespace
	if scope == "" {
		scope = "*"
	}
	name := fmt.Sprintf("%s/%s/%s/%s", cache, e.key.Representation, mapping.Resource.GroupResource(), scope)
	if mapping.Resource.Version != "" {
		name += "@" + mapping.Resource.Version
	}
	identity, err := toolscache.NewInformerName(name)
	if err != nil {
		return toolscache.InformerNameAndResource{}, fmt.Errorf("naming the informer of %s: %w", e.key, err)
	}
	// A second release would release the name for another informer that has it by then.
	e.release = sync.OnceFunc(identity.Release)
	return identity.WithResource(mapping.Resource), nil
}

func (e *MapEntry) configure(o *Options) error {
	handle := o.WatchErrorHandler
	if handle == nil {
		handle = toolscache.DefaultWatchErrorHandler
	}
	err := e.Informer.SetWatchErrorHandlerWithContext(e.failures.Handler(handle))
	// An informer that the user made may refuse a handler. This is an error only if the user has
	// set a handler.
	if err != nil && o.WatchErrorHandler != nil {
		return err
	}
	return e.Informer.SetTransform(o.Transform)
}

// run runs the informer until the entry is removed or ctx ends. An informer that the user made may
// return earlier; run does not.
func (e *MapEntry) run(ctx context.Context, logger logr.Logger) {
	defer e.release()
	defer e.own.close()
	stop := context.AfterFunc(ctx, e.remove)
	defer stop()
	e.Informer.RunWithContext(logr.NewContext(e.ctx, logger))
	<-e.ctx.Done()
}

// IndexField declares a field index, see [index.Fields.Declare].
func (e *MapEntry) IndexField(field string, extract client.IndexerFunc) error {
	return e.fields.Declare(e.Informer, field, extract)
}

// WaitForSync waits until the informer has synced. If ctx ends first, the error is a Timeout API
// error that says what the informer waits for. If the informer is removed first, the error says so.
func (e *MapEntry) WaitForSync(ctx context.Context) error {
	if e.Informer.HasSynced() {
		return nil
	}
	synced := e.Informer.HasSyncedChecker().Done()
	select {
	case <-synced:
		return nil
	case <-e.ctx.Done():
		return fmt.Errorf("waiting for the cache of %s: %w; %s", e, errRemoved, e.waitingFor())
	case <-ctx.Done():
		if e.Informer.HasSynced() {
			return nil
		}
		return apierrors.NewTimeoutError(fmt.Sprintf("gave up waiting for the cache of %s to sync (%v): %s",
			e, context.Cause(ctx), e.waitingFor()), 0)
	}
}

// Up reports whether the informer has synced and, as far as is known, follows the API server. An
// object that does not fit the Go type of the kind prevents the informer from seeing any other
// object, until a complete list has no such object. An informer that the user made does not report
// complete lists, so after one misfit it is never up again.
func (e *MapEntry) Up() bool { return e.Informer.HasSynced() && !e.failures.Misfit() }

func (e *MapEntry) waitingFor() string {
	if err := e.failures.Last(); err != nil {
		return "listing or watching last failed with: " + err.Error()
	}
	return "the first list is not complete yet, no error so far"
}

// String names the kind and the scope.
func (e *MapEntry) String() string {
	if e.namespace == "" {
		return e.key.String()
	}
	return fmt.Sprintf("%s in namespace %q", e.key, e.namespace)
}
