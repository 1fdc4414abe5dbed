// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/utils/ptr"

	"github.com/tarn-dev/tarn/envtest/internal/stores"
	"github.com/tarn-dev/tarn/pkg/cacher"
)

// StorageDecorator chooses what is between the request handlers of a resource and etcd. The function store makes the
// plain etcd3 store of the resource, on the environment's own etcd. A decorator returns store itself, or a function
// that calls store and puts another storage in front of it. The destroy function of that storage may be called more
// than once and has to be quick, because the stores of custom resources are replaced when their CRD changes.
//
// A StorageDecorator is called for each resource, also from several goroutines when CRDs come and go. Cacher,
// UpstreamCacher and Undecorated are, or return, such functions. A decorator that looks at the resource can choose
// among them, as --watch-cache and --watch-cache-sizes of kube-apiserver do.
type StorageDecorator func(resource schema.GroupResource, store generic.StorageDecorator) generic.StorageDecorator

// historyBytes bounds the histories of a server's watch caches together. One cache may hold half: 160 updates of 200 KiB.
const historyBytes = 64 << 20

// Cacher returns a decorator that puts the Cacher of package cacher in front of etcd. Unless the options say otherwise, objects are
// kept flat, and the histories of all resources have 64 MiB together: of each environment that has no StorageDecorator, or of
// all environments that have this one.
func Cacher(options cacher.Options) StorageDecorator {
	if options.Decoded == nil {
		options.Decoded = ptr.To(false)
	}
	if options.HistoryBudget == nil {
		options.HistoryBudget = cacher.NewHistoryBudget(historyBytes)
	}
	return func(_ schema.GroupResource, store generic.StorageDecorator) generic.StorageDecorator {
		return cacher.StorageWithCacher(store, options)
	}
}

// Undecorated is the decorator without a cache: etcd answers reads and watches. Watches then get no periodic bookmarks.
func Undecorated(_ schema.GroupResource, store generic.StorageDecorator) generic.StorageDecorator {
	return store
}

// UpstreamCacher is the decorator that puts k8s.io/apiserver's own Cacher in front of etcd, as kube-apiserver does.
func UpstreamCacher(_ schema.GroupResource, store generic.StorageDecorator) generic.StorageDecorator {
	return stores.UpstreamCacher(store)
}

// watchCacheVariable names the decorator of environments whose options have none, so that a suite can be run on another
// watch cache as it is.
const watchCacheVariable = "TARN_WATCH_CACHE"

// The names of the decorators.
const (
	tarnWatchCache     = "tarn"
	upstreamWatchCache = "upstream"
	noWatchCache       = "none"
)

// DecoratorNamed returns a decorator by its name, for flags and environment variables. "tarn" and the empty name are
// Cacher without options, "upstream" is UpstreamCacher, and "none" is Undecorated. Any other name is an error.
func DecoratorNamed(name string) (StorageDecorator, error) {
	switch name {
	case "", tarnWatchCache:
		return Cacher(cacher.Options{}), nil
	case upstreamWatchCache:
		return UpstreamCacher, nil
	case noWatchCache:
		return Undecorated, nil
	}
	return nil, fmt.Errorf("there is no watch cache %q: use %s, %s or %s", name, tarnWatchCache, upstreamWatchCache, noWatchCache)
}

// defaultDecorator is named by the environment of the process.
func defaultDecorator() (StorageDecorator, error) {
	decorator, err := DecoratorNamed(os.Getenv(watchCacheVariable))
	if err != nil {
		return nil, fmt.Errorf("environment variable %s: %w", watchCacheVariable, err)
	}
	return decorator, nil
}
