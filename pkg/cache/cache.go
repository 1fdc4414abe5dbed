// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"cmp"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/tarn-dev/tarn/pkg/informers"
)

// These types are controller-runtime's own, so a program changes only the function that makes the
// cache.
type (
	Cache              = crcache.Cache
	Informers          = crcache.Informers
	Informer           = crcache.Informer
	InformerGetOption  = crcache.InformerGetOption
	InformerGetOptions = crcache.InformerGetOptions
	NewCacheFunc       = crcache.NewCacheFunc

	Options  = crcache.Options
	ByObject = crcache.ByObject
	Config   = crcache.Config

	// ErrCacheNotStarted is returned by reads before Start. A program calls Start in a goroutine,
	// and then WaitForCacheSync. Match a pointer to this type with errors.As.
	ErrCacheNotStarted = crcache.ErrCacheNotStarted
	// ErrResourceNotCached is returned by reads of a kind without an informer if
	// ReaderFailOnMissingInformer is set, in Options or in TuningByObject. Match a pointer to this type with errors.As.
	ErrResourceNotCached = crcache.ErrResourceNotCached
)

// NotSyncedError says why a kind is not cached as it is in the API server. Reads, GetInformer and
// IndexField return it, and [NotSynced] those of a whole cache. Match a pointer to this type with
// errors.As. FailurePolicy, in Tuning, decides which calls wait meanwhile.
type (
	NotSyncedError = informers.NotSyncedError
	Cause          = informers.Cause
	FailurePolicy  = informers.FailurePolicy
)

// The causes and the policies are those of package informers, which says more about each.
const (
	Listing           = informers.Listing
	Forbidden         = informers.Forbidden
	Unauthorized      = informers.Unauthorized
	NotServed         = informers.NotServed
	NotWatchable      = informers.NotWatchable
	Undecodable       = informers.Undecodable
	TooManyRequests   = informers.TooManyRequests
	Unavailable       = informers.Unavailable
	ConnectionRefused = informers.ConnectionRefused
	TLS               = informers.TLS
	Timeout           = informers.Timeout
	TransformFailed   = informers.TransformFailed
	IndexFailed       = informers.IndexFailed
	Other             = informers.Other

	WaitOnFailure = informers.WaitOnFailure
	FailFast      = informers.FailFast
	Isolate       = informers.Isolate
)

// Storage says how the objects of a kind are kept, in Tuning. The values are those of package informers, which says
// more about each.
type Storage = informers.Storage

// The storages.
const (
	Flat             = informers.Flat
	Decoded          = informers.Decoded
	SeparateMetadata = informers.SeparateMetadata
	OneWatch         = informers.OneWatch
)

// AllNamespaces is the key of Options.DefaultNamespaces and ByObject.Namespaces that stands for all
// namespaces without an entry of their own.
const AllNamespaces = crcache.AllNamespaces

// BlockUntilSynced says whether GetInformer and GetInformerForKind wait until the informer has
// synced. By default they wait.
func BlockUntilSynced(shouldBlock bool) InformerGetOption {
	return crcache.BlockUntilSynced(shouldBlock)
}

// TransformStripManagedFields returns a transform that removes the managedFields of every object
// before the cache stores it.
func TransformStripManagedFields() toolscache.TransformFunc {
	return crcache.TransformStripManagedFields()
}

var _ NewCacheFunc = New

// New returns a cache of the objects that the API server of cfg holds. If opts.ByObject is set, New
// asks the API server for the scope of those kinds. All other requests are made later, when kinds
// are asked for. New neither changes nor keeps cfg and opts.
//
// New returns an error for options that contradict each other or that the API server cannot serve.
func New(cfg *rest.Config, opts Options) (Cache, error) {
	return newCache(cfg, opts, Tuning{})
}

func newCache(cfg *rest.Config, opts Options, tuning Tuning) (Cache, error) {
	if cfg == nil {
		return nil, fmt.Errorf("cannot make a cache: the rest config is nil")
	}
	cfg = rest.CopyConfig(cfg)
	if cfg.UserAgent == "" {
		cfg.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	if err := setDefaults(cfg, &opts); err != nil {
		return nil, err
	}
	release, err := claim(tuning.Name)
	if err != nil {
		return nil, err
	}
	shared, err := sharedBy(cfg, &opts, &tuning)
	if err != nil {
		release()
		return nil, err
	}
	// The function must not refer to the cache, which is garbage by the time of the call.
	end := sync.OnceFunc(func() {
		shared.Metrics.Unregister()
		release()
	})
	c, err := newInformerCache(opts, shared, &tuning)
	if err != nil {
		end()
		return nil, err
	}
	c.misses = newMisses(func() (client.Reader, error) {
		return client.New(cfg, client.Options{HTTPClient: opts.HTTPClient, Scheme: opts.Scheme, Mapper: opts.Mapper})
	}, shared.Metrics.Reads())
	c.bounds = newBounds(&tuning, shared)
	c.release = end
	c.abandonWithCache()
	return c, nil
}

// setDefaults fills in the options that connect the cache to the API server.
func setDefaults(cfg *rest.Config, opts *Options) (err error) {
	if opts.HTTPClient == nil {
		if opts.HTTPClient, err = rest.HTTPClientFor(cfg); err != nil {
			return fmt.Errorf("could not create HTTP client from config: %w", err)
		}
	}
	if opts.Scheme == nil {
		opts.Scheme = scheme.Scheme
	}
	if opts.Mapper == nil {
		if opts.Mapper, err = apiutil.NewDynamicRESTMapper(cfg, forDiscovery(opts.HTTPClient)); err != nil {
			return fmt.Errorf("could not create RESTMapper from config: %w", err)
		}
	}
	return nil
}

// discoveryTimeout is how long the RESTMapper of the cache waits for an answer: client-go's time for discovery, which it
// does not use with the HTTP client of a caller.
const discoveryTimeout = 32 * time.Second

// forDiscovery returns a client that makes requests as given does, over the same connections, and gives up after
// discoveryTimeout if given has no time-out.
func forDiscovery(given *http.Client) *http.Client {
	limited := *given
	limited.Timeout = cmp.Or(limited.Timeout, discoveryTimeout)
	return &limited
}

// sharedBy returns what all informer maps of a cache have in common.
func sharedBy(cfg *rest.Config, opts *Options, tuning *Tuning) (*informers.Shared, error) {
	shared := &informers.Shared{
		Name:              nameOr(tuning.Name),
		Logger:            log.Log.WithName("tarn").WithName("cache"),
		Config:            cfg,
		HTTPClient:        opts.HTTPClient,
		Scheme:            opts.Scheme,
		Mapper:            opts.Mapper,
		WatchErrorHandler: opts.DefaultWatchErrorHandler,
		NewInformer:       opts.NewInformer,
	}
	tuning.ReaderFailOnMissingInformer = cmp.Or(tuning.ReaderFailOnMissingInformer, ptr.To(opts.ReaderFailOnMissingInformer))
	return shared, tuning.apply(shared)
}
