// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
)

// Options configure a [Map]. Config, HTTPClient, Scheme, Mapper and Name must be
// set.
type Options struct {
	// Name identifies the cache in the metrics of its informers. It is unique in
	// the process.
	Name string
	// Logger receives the log of the informers.
	Logger logr.Logger

	// Config, HTTPClient, Scheme and Mapper make the clients.
	Config     *rest.Config
	HTTPClient *http.Client
	Scheme     *runtime.Scheme
	Mapper     meta.RESTMapper

	// Namespace restricts namespaced kinds; empty means all namespaces.
	Namespace string
	Selector  Selector

	Transform             toolscache.TransformFunc
	WatchErrorHandler     toolscache.WatchErrorHandlerWithContext
	UnsafeDisableDeepCopy bool
	EnableWatchBookmarks  bool
	// ResyncPeriod is the mean period; each informer gets its own within 10 % of it.
	ResyncPeriod time.Duration
	// Decoded says of a kind that its objects are to be kept decoded; nil says it of
	// none. Those with UnsafeDisableDeepCopy are anyway.
	Decoded func(Key) bool
	// VerifyFlat compares what is kept flat with its source, for tests.
	VerifyFlat bool
	// Window is the number of events that a handler may be behind; zero is the default.
	Window int
	// Metrics may be nil.
	Metrics *Metrics
	// NewInformer makes the informers; nil means our own.
	NewInformer func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer
}

// jitter spreads the resyncs of informers that were created together.
func jitter(period time.Duration) time.Duration {
	return time.Duration(float64(period) * (0.9 + 0.2*rand.Float64()))
}
