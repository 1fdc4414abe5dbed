// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"context"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher/progress"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/tarn-dev/tarn/internal/watchcache"
	"github.com/tarn-dev/tarn/pkg/cacher/internal/dispatch"
	"github.com/tarn-dev/tarn/pkg/cacher/internal/element"
)

// Cacher is a storage.Interface that answers reads and watches out of memory. Make one
// with [New]. It is safe for concurrent use.
type Cacher struct {
	config         *Config
	features       featureSet
	form           *element.Form
	engine         *dispatch.Engine
	indexes        *indexes
	ready          *readiness
	waiter         *waiter
	dispatcher     *dispatch.Dispatcher
	reflectorStore *reflectorStore
	checker        *checker
	metrics        *metrics
	lifetime       lifetime
}

// lifetime has the goroutines of a Cacher but those of watchers, which are the dispatcher's.
type lifetime struct {
	stop    context.CancelFunc
	running sync.WaitGroup
}

var _ storage.Interface = (*Cacher)(nil)

const (
	// restartAfter is the time between the end of a list-watch and the next one.
	restartAfter = time.Second
	// internalErrorRetries is for how long the Reflector retries internal errors of a watch
	// itself.
	internalErrorRetries = 30 * time.Second
)

// New returns a Cacher in front of config.Storage and starts it; Stop ends it. It returns
// before the cache is ready, see Wait. The error says what is wrong with config.
func New(config Config) (*Cacher, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(klog.NewContext(context.Background(), config.Logger))
	c, err := assemble(config, ctx.Done())
	if err != nil {
		stop()
		return nil, err
	}
	c.lifetime.stop = stop
	if estimatesSizes() {
		if err := config.Storage.EnableResourceSizeEstimation(c.keys); err != nil {
			stop()
			c.metrics.end()
			return nil, err
		}
	}
	c.lifetime.running.Go(func() { c.run(ctx) })
	c.lifetime.running.Go(func() { c.waiter.progress.Run(ctx.Done()) })
	c.lifetime.running.Go(func() { c.dispatcher.Run(ctx) })
	c.lifetime.running.Go(func() { c.dispatcher.RunRounds(ctx) })
	c.lifetime.running.Go(func() { c.checker.run(ctx) })
	return c, nil
}

// assemble makes the parts of a Cacher, each of what it needs, and starts none. ended is closed
// when the Cacher ends.
func assemble(config Config, ended <-chan struct{}) (*Cacher, error) {
	metrics, err := newMetrics(config)
	if err != nil {
		return nil, err
	}
	c := &Cacher{
		config: &config, features: readFeatures(), metrics: metrics, ready: newReadiness(config.Clock),
		form: element.NewForm(reflect.TypeOf(config.NewFunc()), ptr.Deref(config.Decoded, true), config.GetAttrsFunc),
	}
	c.engine = newEngine(config)
	c.indexes = newIndexes(c.engine, config)
	requester := progress.NewConditionalProgressRequester(config.Storage.RequestWatchProgress, config.Clock, nil)
	c.waiter = &waiter{engine: c.engine, progress: requester, clock: config.Clock, metrics: metrics, ended: ended}
	c.dispatcher = dispatch.New(dispatch.Config{
		Engine: c.engine, Form: c.form, Versioner: config.Versioner, NewObject: config.NewFunc, Triggers: config.IndexerFuncs,
		Admit: c.ready.isIn, Clock: config.Clock, Metrics: metrics,
		Logger: config.Logger.WithValues("resource", config.GroupResource),
	})
	c.reflectorStore = newReflectorStore(c.config, c.form, c.engine, requester, metrics, c.synced)
	c.checker = &checker{config: c.config, form: c.form, engine: c.engine, ready: c.ready, metrics: metrics}
	return c, nil
}

func newEngine(config Config) *dispatch.Engine {
	var budget *watchcache.Budget
	if config.HistoryBudget != nil {
		budget = config.HistoryBudget.shared
	}
	return watchcache.New[*element.Element, *dispatch.Sharing](watchcache.Options[*element.Element]{
		Values: (*element.Element).Values,
		History: &watchcache.History[*element.Element]{
			MinAge:    config.EventsHistoryWindow,
			MaxEvents: config.HistoryEvents,
			MaxBytes:  config.HistoryBytes,
			Budget:    budget,
			Size:      (*element.Element).Bytes,
			Clock:     config.Clock,
		},
	})
}

// synced lets requests in when a list has become the state.
func (c *Cacher) synced(revision uint64) {
	c.dispatcher.Reset()
	c.ready.set(true, nil)
	c.metrics.initialized(revision)
}

// run lists and watches until ctx ends, and begins anew whenever that fails.
func (c *Cacher) run(ctx context.Context) {
	logger := klog.FromContext(ctx)
	in := c.reflectorStore
	reflector := toolscache.NewReflectorWithOptions(
		&listerWatcher{storage: c.config.Storage, prefix: c.config.ResourcePrefix, newList: c.config.NewListFunc, streams: c.features.watchList, rewatch: in.rewatch},
		c.config.NewFunc(), in, toolscache.ReflectorOptions{
			Name:            "cacher of " + c.config.GroupResource.String(),
			TypeDescription: c.config.GroupResource.String(),
			Logger:          &logger,
		})
	reflector.WatchListPageSize = listPageSize
	reflector.MaxInternalErrorRetryDuration = internalErrorRetries
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		watching, abort := context.WithCancelCause(ctx)
		in.begin(abort)
		err := reflector.ListAndWatchWithContext(watching)
		abort(nil)
		if ctx.Err() != nil {
			return
		}
		if in.lost != nil {
			err = in.lost
		}
		c.ready.set(false, err)
		c.dispatcher.TerminateAll()
		if err != nil {
			logger.Error(err, "The list-watch of the cacher failed; it begins anew", "resource", c.config.GroupResource)
			c.metrics.failed()
		}
	}, restartAfter)
	c.dispatcher.TerminateAll()
}

// Wait waits until the cache holds the state of the storage.
func (c *Cacher) Wait(ctx context.Context) error { return c.ready.wait(ctx) }

// Stop ends the Cacher and all its watchers, and returns when its goroutines have ended.
// It may be called more than once. Requests are answered with errors afterwards.
func (c *Cacher) Stop() {
	c.ready.stop()
	c.lifetime.stop()
	c.lifetime.running.Wait()
	c.dispatcher.Stop()
	c.engine.Forget()
	c.metrics.end()
}

// CheckConsistency compares digests of the objects in the cache with those of the storage at
// the same resource version: of their metadata and, if there is a Codec, of all that they
// contain. They differ after an error of this package or of the storage, and when a program has
// changed an object of the cache. Then the error is ErrInconsistent and names some of the
// objects, OnInconsistency is called, and lists are answered by the storage until a later
// comparison finds no difference. Other errors say why the comparison failed. It reads and
// encodes every object.
func (c *Cacher) CheckConsistency(ctx context.Context) error { return c.checker.check(ctx) }

// Versioner implements storage.Interface.
func (c *Cacher) Versioner() storage.Versioner { return c.config.Storage.Versioner() }

// Create implements storage.Interface.
func (c *Cacher) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	if ttl > 0 {
		c.reflectorStore.group.expires.Store(true)
	}
	return c.config.Storage.Create(ctx, key, obj, out, ttl)
}

// Delete implements storage.Interface. The cached object takes the place of the caller's
// suggestion.
func (c *Cacher) Delete(
	ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, _ runtime.Object, opts storage.DeleteOptions,
) error {
	return c.config.Storage.Delete(ctx, key, out, preconditions, validate, c.suggestion(key), opts)
}

// GuaranteedUpdate implements storage.Interface. The cached object takes the place of the
// caller's suggestion.
func (c *Cacher) GuaranteedUpdate(
	ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc, _ runtime.Object,
) error {
	return c.config.Storage.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions, tryUpdate, c.suggestion(key))
}

// suggestion returns a copy of the cached object; nil if there is none.
func (c *Cacher) suggestion(key string) runtime.Object {
	item, ok := c.engine.Get(key)
	if !ok {
		return nil
	}
	obj, err := c.form.Copy(item.Value)
	if err != nil { // the storage does without
		c.config.Logger.Error(err, "Cannot read an object out of the cache", "resource", c.config.GroupResource, "key", key)
		return nil
	}
	return obj
}

// Stats implements storage.Interface.
func (c *Cacher) Stats(ctx context.Context) (storage.Stats, error) {
	return c.config.Storage.Stats(ctx)
}

// ReadinessCheck implements storage.Interface.
func (c *Cacher) ReadinessCheck() error {
	if _, err := c.ready.check(); err != nil {
		return storage.ErrStorageNotReady
	}
	return nil
}

// RequestWatchProgress implements storage.Interface.
func (c *Cacher) RequestWatchProgress(ctx context.Context) error {
	return c.config.Storage.RequestWatchProgress(ctx)
}

// GetCurrentResourceVersion implements storage.Interface.
func (c *Cacher) GetCurrentResourceVersion(ctx context.Context) (uint64, error) {
	return c.config.Storage.GetCurrentResourceVersion(ctx)
}

// EnableResourceSizeEstimation implements storage.Interface.
func (c *Cacher) EnableResourceSizeEstimation(keys storage.KeysFunc) error {
	return c.config.Storage.EnableResourceSizeEstimation(keys)
}

// CompactRevision implements storage.Interface.
func (c *Cacher) CompactRevision() int64 { return c.config.Storage.CompactRevision() }
