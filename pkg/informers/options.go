// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"cmp"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/listwatch"
	"github.com/tarn-dev/tarn/internal/metrics"
	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/pending"
	"github.com/tarn-dev/tarn/internal/resolver"
	"github.com/tarn-dev/tarn/internal/served"
)

// Selector restricts what a [Map] lists and watches. An object must match both fields, Label and Field. A nil field matches every object.
type Selector = listwatch.Selector

// Options configure a [Map]: what it has in common with the other maps of a cache, which is required, and its scope.
type Options struct {
	*Shared

	// Namespace restricts namespaced kinds; empty means all namespaces.
	Namespace string
	Selector  Selector
	// Scope is the scope of the kinds that the map holds; empty for any. An optional kind with another one is dormant.
	Scope meta.RESTScopeName

	Transform             toolscache.TransformFunc
	UnsafeDisableDeepCopy bool
	EnableWatchBookmarks  bool
	// ResyncPeriod is the mean period; each informer gets its own within 10 % of it.
	ResyncPeriod time.Duration
	written      *written         // of the map, and of its parts
	place        place            // of the map among others
	wides        *listwatch.Wides // nil if the map has its watches for itself
}

// Shared is what all maps of a cache have in common. Name, Config, HTTPClient, Scheme and Mapper are required. It must
// neither be copied nor changed once a map has it. There are more than twelve fields, the limit of
// tarn_test.go, because half are controller-runtime's options of a whole cache.
type Shared struct {
	// Name identifies the cache in the metrics of its informers. It must be unique in the process.
	Name string
	// Logger receives the log of the informers.
	Logger logr.Logger

	// Config, HTTPClient, Scheme and Mapper make the clients.
	Config     *rest.Config
	HTTPClient *http.Client
	Scheme     *runtime.Scheme
	Mapper     meta.RESTMapper
	resolver   resolver.Resolver // asks Mapper
	holding    sync.Mutex        // guards how often entries are held; comes before Map.mu

	WatchErrorHandler toolscache.WatchErrorHandlerWithContext
	// Tuning returns the settings of a kind; nil means the zero value for all kinds.
	Tuning func(schema.GroupVersionKind) KindTuning
	// VerifyFlat compares each flat object with its source, for tests.
	VerifyFlat bool
	// DecodedBudget bounds the memory of the decoded objects that reads without copies share. If it is nil, each
	// informer has one of its own.
	DecodedBudget *object.Budget
	// OwnWrites bounds the memory of the objects that the program has written and the watch has not
	// shown. If it is nil, each informer has one of its own.
	OwnWrites *pending.Budget
	// Served tells when optional kinds are served. If it is nil, no kind is optional.
	Served *served.Follower
	// Metrics may be nil.
	Metrics *metrics.Metrics
	// NewInformer makes the informers. If it is nil, they are those of package internal/informer.
	NewInformer func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer
}

// KindTuning has the settings of the informers of one kind, for all representations. The zero value
// of a setting leaves it open, and the default is documented at the setting.
type KindTuning struct {
	// Storage says how the objects are kept, and with how many watches. The default is Flat.
	Storage Storage
	// Window is the number of events that a handler may be behind. Each informer keeps the events that some handler has not received yet, up
	// to this number. A handler that falls further behind gets one event for each object that has changed. The default is 1,024.
	Window int
	// ReadThrough says whether a Get of an object that the cache does not hold reads it from the API server (true). By default it does not.
	// Callers that ask for the same object at the same time share one request. An object that the server does not have either is not asked
	// for again for a second, so a Get may not find what was created within that second. An object in the scope of the cache passes its
	// transform. Lists are answered by the cache alone. A read of a kind that does not sync is not a miss, and does not read through.
	ReadThrough *bool
	// Optional says whether the API server may not serve the kind (true). The informer is dormant then: it asks for nothing and holds
	// nothing, reads return an error that meta.IsNoMatchError recognizes, GetInformer returns the informer, and its event handlers count as
	// synced. When the kind is served, it is listed and watched, and handlers are told of its objects; when it is not any more, they are
	// told that the objects are gone. A kind that is served without the verbs list and watch is dormant too: then
	// apierrors.IsMethodNotSupported recognizes the error of reads. By default only kinds that are served can be cached.
	Optional *bool
	// WatchSilence is the idle timeout of a watch: how long it may bring nothing, not even a bookmark, before it is ended and begun anew.
	// The default is three minutes: API servers send a bookmark about every minute. It counts from the first bookmark of a watch, apart from
	// that at the end of a list: until its own version has moved on, a server sends none. Until then a watch ends half a minute after its
	// time-out. A negative time is refused; a year is as good as for ever.
	WatchSilence time.Duration
	// MaxBytes is how many bytes the kind may take in a cache, about, with all its representations, namespaces and leases; zero is
	// no bound. What counts, and what happens beyond, is said at Tuning.MaxBytes of package cache, which is for all kinds together.
	// Of single informers only a cache looks at it.
	MaxBytes int64
	// OnFailure says what happens if the kind cannot be cached. The default is WaitOnFailure.
	OnFailure FailurePolicy
	// ReaderFailOnMissingInformer says whether a read for which there is no informer returns an *ErrResourceNotCached of controller-runtime
	// (true), or starts one for the whole kind (false). The default is the option of that name of controller-runtime's cache. Informers that
	// GetInformer, event handlers, indexes or leases have started serve reads in any case.
	ReaderFailOnMissingInformer *bool
	// Fields are the fields of an object that are kept; nil for all. The others are cut when an object is received, before it passes its
	// transform. A field is a path: names with dots between, such as "spec.nodeName" or "spec.containers.image", which goes through the
	// list. A dot in a key of a map has a backslash before it: `metadata.annotations.example\.com/size`. The parents of a field that are
	// present stay, without the rest. The kind and the metadata are always kept, apart from annotations and managedFields.
	//
	// Objects of reads and of events have a mark then, in metadata.selfLink: "?fields=spec.nodeName,status.phase". An object without it is
	// whole: one that Whole selects, and what a read with the option ReadThrough returns. A client of pkg/client refuses an update or apply
	// of an object with the mark, and sends merge patches of it, whose lists must be kept. Functions of indexes get objects that are cut,
	// and so do functions that extract apply configurations. An index by the path of a field that is cut is refused.
	Fields []string
	// Whole are the objects that are kept whole: those that one of the lists would return, by Namespace, LabelSelector, and the fields
	// metadata.name and metadata.namespace, before the transform. Fields are kept of the others. Without Fields the others are not
	// cached: of several selectors one must match, beside those of controller-runtime's options.
	//
	// There is one watch, so an object that goes from one selector to another is not deleted in between. The API server sends what the
	// labels of all entries have in common, such as app in (a,b) for app=a and app=b; what else it sends is dropped.
	// Handlers are told that an object that matches no more is deleted, with its last state that did.
	// A FieldSelector with a method Changed() <-chan struct{}, such as that of a ring (package shard), may change: then the kind is listed again.
	// Its Matches gets a value that is also a metav1.Object, or a namespace and a name alone: then it must match if these do not tell.
	Whole []client.ListOptions
}

// Or returns t with the settings of other where t leaves them open.
func (t KindTuning) Or(other KindTuning) KindTuning {
	fields, whole := t.Fields, t.Whole
	if fields == nil {
		fields = other.Fields
	}
	if whole == nil {
		whole = other.Whole
	}
	return KindTuning{
		Storage:      cmp.Or(t.Storage, other.Storage),
		Window:       cmp.Or(t.Window, other.Window),
		ReadThrough:  cmp.Or(t.ReadThrough, other.ReadThrough),
		Optional:     cmp.Or(t.Optional, other.Optional),
		WatchSilence: cmp.Or(t.WatchSilence, other.WatchSilence),
		MaxBytes:     cmp.Or(t.MaxBytes, other.MaxBytes),
		OnFailure:    cmp.Or(t.OnFailure, other.OnFailure),

		ReaderFailOnMissingInformer: cmp.Or(t.ReaderFailOnMissingInformer, other.ReaderFailOnMissingInformer),

		Fields: fields, Whole: whole,
	}
}

// place says to what a map belongs.
type place int

const (
	single place = iota
	aPart        // of another map: see Map.Part
	aLive        // of another map, and may leave: see Map.Live
)

// holds reports whether the map is for kinds of a scope.
func (o *Options) holds(scope meta.RESTScope) bool { return o.Scope == "" || o.Scope == scope.Name() }

// isOptional reports whether the API server may not serve a kind. An informer that the user makes cannot be dormant.
func (s *Shared) isOptional(key Key) bool {
	return s.Served != nil && s.NewInformer == nil && ptr.Deref(s.tuning(key.GroupVersionKind).Optional, false)
}

// defaultIdleTimeout is three times as long as API servers are silent.
const defaultIdleTimeout = 3 * time.Minute

// idleTimeout returns how long a watch of the kind may bring nothing; zero is for ever.
func (o *Options) idleTimeout(gvk schema.GroupVersionKind) time.Duration {
	limit := cmp.Or(o.tuning(gvk).WatchSilence, defaultIdleTimeout)
	if !o.EnableWatchBookmarks {
		return 0
	}
	return max(limit, 0)
}

// onFailure returns the policy for informers of a kind. The informers of a part do not end the cache: their kind is isolated. So it is in
// a live map, unless the program wants to wait.
func (o *Options) onFailure(gvk schema.GroupVersionKind) FailurePolicy {
	policy := o.tuning(gvk).OnFailure
	if o.place == aLive && policy != WaitOnFailure {
		return Isolate
	}
	if o.place == aPart && policy == FailFast {
		return Isolate
	}
	return policy
}

// tuning returns the settings of a kind.
func (s *Shared) tuning(gvk schema.GroupVersionKind) KindTuning {
	if s.Tuning == nil {
		return KindTuning{}
	}
	return s.Tuning(gvk)
}

// jitter returns a period within 10 % of the given one, so that informers that were created together do not resync together.
func jitter(period time.Duration) time.Duration {
	return time.Duration(float64(period) * (0.9 + 0.2*rand.Float64()))
}
