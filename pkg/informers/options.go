// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"cmp"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/tarn-dev/tarn/internal/listwatch"
)

// Selector restricts what a [Map] lists and watches. Objects must match both of its fields,
// Label and Field; a nil one matches every object.
type Selector = listwatch.Selector

// Options configure a [Map]. Config, HTTPClient, Scheme, Mapper and Name must be
// set. There are more than twelve fields because most are those of one scope in
// controller-runtime's options.
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
	// Tuning returns the settings of a kind; nil means the zero value for all kinds.
	Tuning func(schema.GroupVersionKind) KindTuning
	// VerifyFlat compares what is kept flat with its source, for tests.
	VerifyFlat bool
	// Metrics may be nil.
	Metrics *Metrics
	// NewInformer makes the informers; nil means our own.
	NewInformer func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer
}

// KindTuning says how the informers of one kind work, in all representations. A setting with its
// zero value is left open: what decides then is said at each.
type KindTuning struct {
	// Decoded says whether objects are kept as Go values, as client-go keeps them (true), or flat
	// (false, and if it is left open). Decoded objects take up to twenty times the memory; the
	// setting is for kinds with few objects that are read very often. The objects of a kind
	// with UnsafeDisableDeepCopy are always kept decoded, and so are those that cannot be flat
	// without loss.
	Decoded *bool
	// Window is the number of events that a handler may be behind: each informer keeps those
	// that some handler was not given yet, up to this number. A handler that falls further
	// behind gets one event for each object that has changed. The default is 1,024.
	Window int
	// SeparateViews says whether reads of metadata alone get an informer of their own even if
	// all of the kind's objects are cached already (true). Otherwise the metadata of those
	// objects are read, as a transform has left them, and no second watch is opened. (If not all
	// objects fit the Go type of the kind, reads of metadata have an informer of their own in
	// any case.)
	SeparateViews *bool
}

// Or returns t, with the settings of other where t leaves them open.
func (t KindTuning) Or(other KindTuning) KindTuning {
	return KindTuning{
		Decoded:       cmp.Or(t.Decoded, other.Decoded),
		Window:        cmp.Or(t.Window, other.Window),
		SeparateViews: cmp.Or(t.SeparateViews, other.SeparateViews),
	}
}

// tuning returns the settings of a kind.
func (o *Options) tuning(gvk schema.GroupVersionKind) KindTuning {
	if o.Tuning == nil {
		return KindTuning{}
	}
	return o.Tuning(gvk)
}

// jitter spreads the resyncs of informers that were created together.
func jitter(period time.Duration) time.Duration {
	return time.Duration(float64(period) * (0.9 + 0.2*rand.Float64()))
}
