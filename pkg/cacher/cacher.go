// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher/progress"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

// Cacher is a storage.Interface that answers reads and watches out of memory. Make one
// with [New]. It is safe for concurrent use.
type Cacher struct {
	config     Config
	features   featureSet
	storage    storage.Interface
	elements   *elements
	engine     *watchcache.Engine[*element, *sharing]
	indexes    *indexes
	ready      *readiness
	progress   *progress.ConditionalProgressRequester
	dispatcher *dispatcher
	checker    *checker
	metrics    *metrics

	expires atomic.Bool // several objects may be deleted at one revision, see revisionGroup

	stop    context.CancelFunc
	ended   <-chan struct{} // closed by stop
	running sync.WaitGroup  // all goroutines
}

var _ storage.Interface = (*Cacher)(nil)

const (
	// listPageSize is how many objects the Reflector asks the storage for at once.
	listPageSize = 10_000
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
	c := &Cacher{
		config:   config,
		features: readFeatures(),
		storage:  config.Storage,
		elements: newElements(config),
		ready:    newReadiness(config.Clock),
		progress: progress.NewConditionalProgressRequester(config.Storage.RequestWatchProgress, config.Clock, nil),
	}
	c.engine = newEngine(config, c.elements)
	c.indexes = newIndexes(c.engine, config)
	c.dispatcher = newDispatcher(c)
	c.checker = &checker{cacher: c}
	if c.metrics, err = newMetrics(config); err != nil {
		return nil, err
	}
	if c.features.sizes {
		if err := config.Storage.EnableResourceSizeEstimation(c.keys); err != nil {
			c.metrics.end()
			return nil, err
		}
	}
	ctx, stop := context.WithCancel(klog.NewContext(context.Background(), config.Logger))
	c.stop, c.ended = stop, ctx.Done()
	c.running.Go(func() { c.run(ctx) })
	c.running.Go(func() { c.progress.Run(ctx.Done()) })
	c.running.Go(func() { c.dispatcher.run(ctx) })
	c.running.Go(func() { c.dispatcher.runRounds(ctx) })
	c.running.Go(func() { c.checker.run(ctx) })
	return c, nil
}

func newEngine(config Config, e *elements) *watchcache.Engine[*element, *sharing] {
	return watchcache.New[*element, *sharing](watchcache.Options[*element]{
		Values: e.values,
		History: &watchcache.History[*element]{
			MinAge:    config.EventsHistoryWindow,
			MaxEvents: config.HistoryEvents,
			MaxBytes:  config.HistoryBytes,
			Size:      func(of *element) int { return of.bytes },
			Clock:     config.Clock,
		},
	})
}

// run lists and watches until ctx ends, and begins anew whenever that fails.
func (c *Cacher) run(ctx context.Context) {
	logger := klog.FromContext(ctx)
	in := &intake{Cacher: c}
	reflector := toolscache.NewReflectorWithOptions(
		&listerWatcher{storage: c.storage, prefix: c.config.ResourcePrefix, newList: c.config.NewListFunc, streams: c.features.watchList, rewatch: in.rewatch},
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
		c.dispatcher.terminateAll()
		if err != nil {
			logger.Error(err, "The list-watch of the cacher failed; it begins anew", "resource", c.config.GroupResource)
			c.metrics.failed()
		}
	}, restartAfter)
	c.dispatcher.terminateAll()
}

// Wait waits until the cache holds the state of the storage.
func (c *Cacher) Wait(ctx context.Context) error { return c.ready.wait(ctx) }

// Stop ends the Cacher and all its watchers, and returns when its goroutines have ended.
// It may be called more than once. Requests are answered with errors afterwards.
func (c *Cacher) Stop() {
	c.ready.stop()
	c.stop()
	c.running.Wait()
	c.dispatcher.wait()
	c.metrics.end()
}

// Versioner implements storage.Interface.
func (c *Cacher) Versioner() storage.Versioner { return c.storage.Versioner() }

// Create implements storage.Interface.
func (c *Cacher) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	if ttl > 0 {
		c.expires.Store(true)
	}
	return c.storage.Create(ctx, key, obj, out, ttl)
}

// Delete implements storage.Interface. The cached object takes the place of the caller's
// suggestion.
func (c *Cacher) Delete(
	ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, _ runtime.Object, opts storage.DeleteOptions,
) error {
	return c.storage.Delete(ctx, key, out, preconditions, validate, c.suggestion(key), opts)
}

// GuaranteedUpdate implements storage.Interface. The cached object takes the place of the
// caller's suggestion.
func (c *Cacher) GuaranteedUpdate(
	ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc, _ runtime.Object,
) error {
	return c.storage.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions, tryUpdate, c.suggestion(key))
}

// suggestion returns the cached object as the caller's own, nil if there is none.
func (c *Cacher) suggestion(key string) runtime.Object {
	item, ok := c.engine.Get(key)
	if !ok {
		return nil
	}
	obj, err := c.elements.own(item.Value)
	if err != nil { // the storage does without
		c.config.Logger.Error(err, "Cannot read an object out of the cache", "resource", c.config.GroupResource, "key", key)
		return nil
	}
	return obj
}

// Stats implements storage.Interface.
func (c *Cacher) Stats(ctx context.Context) (storage.Stats, error) { return c.storage.Stats(ctx) }

// ReadinessCheck implements storage.Interface.
func (c *Cacher) ReadinessCheck() error {
	if _, err := c.ready.check(); err != nil {
		return storage.ErrStorageNotReady
	}
	return nil
}

// RequestWatchProgress implements storage.Interface.
func (c *Cacher) RequestWatchProgress(ctx context.Context) error {
	return c.storage.RequestWatchProgress(ctx)
}

// GetCurrentResourceVersion implements storage.Interface.
func (c *Cacher) GetCurrentResourceVersion(ctx context.Context) (uint64, error) {
	return c.storage.GetCurrentResourceVersion(ctx)
}

// EnableResourceSizeEstimation implements storage.Interface.
func (c *Cacher) EnableResourceSizeEstimation(keys storage.KeysFunc) error {
	return c.storage.EnableResourceSizeEstimation(keys)
}

// CompactRevision implements storage.Interface.
func (c *Cacher) CompactRevision() int64 { return c.storage.CompactRevision() }
