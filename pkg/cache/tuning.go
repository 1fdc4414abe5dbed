// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/tarn-dev/tarn/internal/metrics"
	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/pending"
	"github.com/tarn-dev/tarn/internal/projection"
	"github.com/tarn-dev/tarn/internal/served"
	"github.com/tarn-dev/tarn/pkg/informers"
)

// Tuning has the options that controller-runtime does not have. New uses the zero value. They are more than twelve, because each stands
// on its own.
type Tuning struct {
	// Name is the value of the label "cache" in the metrics of the cache. Two caches of a process that live at the same time must have
	// different names. A cache lives until its Start returns; a cache that was never started lives until it is garbage. Caches without a
	// name are numbered: unnamed-1, unnamed-2 and so on, and these names cannot be chosen.
	Name string

	// TuningByObject has the settings of kinds that ByObject does not name.
	TuningByObject
	// ByObject has the settings of single kinds. The key is an empty object of the kind, in any representation; the settings are for all
	// representations. The settings of all kinds decide what an entry leaves open.
	ByObject map[client.Object]TuningByObject

	// VerifyFlat compares each flat object with its source, and panics if they differ. It is for tests.
	VerifyFlat bool

	// DecodedBudget is the number of bytes that the whole cache may take for decoded objects that reads with client.UnsafeDisableDeepCopy in
	// the call share. Such a read decodes an object that is kept flat, and the decoded object stays as long as it is read every ten seconds,
	// if the budget has room for it. Zero stands for the default: 2 GiB, or half of the memory limit of the Go runtime (GOMEMLIMIT) if that
	// is less. A negative number is no room at all.
	DecodedBudget int64

	// OwnWritesBudget is the number of bytes that the whole cache may take for pending writes, which a client of
	// pkg/client has made and the watch has not shown yet. Zero stands for the default, 64 MiB. A quarter of it is for
	// keys alone. When the rest is used up, all objects of a kind but the newest go, and reads of these ask the API
	// server. A negative number is no room for objects, and a quarter of the default for keys.
	OwnWritesBudget int64

	// MaxBytes is how many bytes the whole cache may take, about: the sum of the parts of tarn_informer_memory_bytes (docs/metrics.md) for
	// all informers, and the copies of single objects that references keep (package lease). It is an estimate without garbage, so a process
	// takes up to twice as much with the default GOGC; what a list that is under way takes does not count. Zero is no bound, and a negative
	// number is refused. So is MaxBytes with the option NewInformer, because nobody knows what these informers take.
	//
	// Every second the cache compares, and evicts what can be had again until it is within its bounds: first informers without
	// leases, whose idle time is over at once; then copies, which the next read asks the API server for; then decoded objects
	// that reads without copies share. If that is not enough, the cache goes on to serve, and starts the informers for which
	// it is asked, because to refuse reads would make programs fail by the order of their reads. A line in the log, the
	// metric tarn_cache_over_max_bytes and package inspect say so, with the largest kinds. Ready does not fail.
	MaxBytes int64

	// Namespaces makes the namespaces of Options.DefaultNamespaces a list that can change while the cache runs, also of kinds in
	// ByObject without Namespaces; nil leaves them fixed. The cache begins with those of DefaultNamespaces, without any if it is
	// empty. With labels.Nothing() the method SetNamespaces of the cache sets the list.
	//
	// With another selector the list has the Namespaces whose labels match, and the cache watches their metadata. DefaultNamespaces has
	// settings alone then, and New asks the API server for the resource. Reads, and HasSynced of handlers, wait for the first list; a
	// read returns a *NotSyncedError as soon as it cannot be had.
	//
	// In both cases OnFailure is Isolate unless it is WaitOnFailure, so a namespace without permission keeps no other one waiting;
	// GetInformer returns an informer without GetIndexer; and leases have informers of their own.
	//
	// From eight namespaces on one watch serves those of a kind that have the default settings, if the account may list Namespaces, and
	// list and watch the kind in all of them. The server sends few objects of other namespaces if it knows shard selectors (KEP-5866);
	// otherwise they are at most three quarters of what comes, and are dropped. If more would come, and when that watch fails, each namespace
	// has its own.
	Namespaces labels.Selector
	// Shard restricts the list to the namespaces in which this replica has a term. A *shard.Ring (package shard) is a Shard. The list
	// changes with the ring. A higher term says that another replica had the namespace in between: handlers are then told that it leaves
	// and enters. Shard needs a selector in Namespaces, which may be labels.Everything(). A cache without a namespace of its own has
	// synced. Kinds with ByObject.Namespaces are cached by all replicas. The methods are called without a lock of the cache.
	// If there is a method Key as that of a Ring, it must return metadata.namespace.
	Shard interface {
		// Term returns the term of the replica in a namespace, or zero.
		Term(namespace string) uint64
		// Changed returns a channel that is closed when a later Term may return something else.
		Changed() <-chan struct{}
		// Member returns the name of the replica, and Members those of all that share the namespaces, as keys. Metrics and package
		// inspect show them.
		Member() string
		Members() map[string]string
	}

	// LeaseIdleTime is how long an informer that was made for leases (package lease) goes on when the last of them was
	// released. Zero stands for the default, half a minute.
	LeaseIdleTime time.Duration

	// Registerer receives the metrics of the cache, which docs/metrics.md lists. Nil stands for
	// controller-runtime's registry (package pkg/metrics of controller-runtime), which a manager serves.
	// Several caches may share it. The metrics are unregistered when the cache ends.
	Registerer prometheus.Registerer
	// NoMetrics has the metrics registered nowhere.
	NoMetrics bool
	// MetricsByNamespace has series of its own for each namespace to which a kind is restricted. By default the namespaces of a kind share
	// one, so that a cache of a thousand namespaces has no more series than one of a single namespace.
	MetricsByNamespace bool
}

// TuningByObject are the settings of one kind, or of all kinds.
type TuningByObject = informers.KindTuning

// With returns a function that makes caches with t. Like New, it can be the value of ctrl.Options.NewCache.
func With(t Tuning) NewCacheFunc {
	return func(cfg *rest.Config, opts Options) (Cache, error) {
		return newCache(cfg, opts, t)
	}
}

// byKind returns a function that returns the settings of a kind. It is an error if a setting is invalid.
func (t *Tuning) byKind(scheme *runtime.Scheme) (func(schema.GroupVersionKind) TuningByObject, error) {
	defaults := t.TuningByObject
	if err := checkKind(defaults); err != nil {
		return nil, fmt.Errorf("cache tuning: %w", err)
	}
	if defaults.Fields != nil || defaults.Whole != nil {
		return nil, errors.New("cache tuning: Fields and Whole are those of one kind: set them in ByObject")
	}
	kinds := make(map[schema.GroupVersionKind]TuningByObject, len(t.ByObject))
	for obj, settings := range t.ByObject {
		gvk, err := kindOf(obj, scheme)
		if err != nil {
			return nil, fmt.Errorf("cache tuning: ByObject: %w", err)
		}
		if _, twice := kinds[gvk]; twice {
			return nil, fmt.Errorf("cache tuning: ByObject: there are two entries for %s; merge them into one, which holds for all its representations", object.Describe(gvk))
		}
		if err := checkKind(settings); err != nil {
			return nil, fmt.Errorf("cache tuning: ByObject[%T]: %w", obj, err)
		}
		if err := projection.CheckWhole(settings.Whole); err != nil {
			return nil, fmt.Errorf("cache tuning: ByObject[%T]: Whole of %s: %w", obj, object.Describe(gvk), err)
		}
		if settings.Fields != nil && projection.RuleOf(settings.Whole, nil).Changed() != nil {
			return nil, fmt.Errorf("cache tuning: ByObject[%T]: Fields and a selector in Whole that changes cannot be set together: nobody would be told of what becomes whole", obj)
		}
		if err := checkFields(settings.Fields, goType(scheme, gvk)); err != nil {
			return nil, fmt.Errorf("cache tuning: ByObject[%T]: Fields of %s: %w", obj, object.Describe(gvk), err)
		}
		kinds[gvk] = settings.Or(defaults)
	}
	return func(gvk schema.GroupVersionKind) TuningByObject {
		if settings, ok := kinds[gvk]; ok {
			return settings
		}
		return defaults
	}, nil
}

// checkKind returns an error if a setting of kinds is invalid.
func checkKind(t TuningByObject) error {
	switch {
	case t.Window < 0:
		return fmt.Errorf("the Window is %d; use 0 for the default", t.Window)
	case t.WatchSilence < 0:
		return fmt.Errorf("the WatchSilence is %s; use 0 for the default, or a long time", t.WatchSilence)
	case t.MaxBytes < 0:
		return fmt.Errorf("the MaxBytes is %d; use 0 for no bound", t.MaxBytes)
	case !t.Storage.Valid():
		return fmt.Errorf("Storage is %q; use %s, %s, %s or %s", t.Storage, Flat, Decoded, SeparateMetadata, OneWatch)
	case !t.OnFailure.Valid():
		return fmt.Errorf("OnFailure is %q; use %s, %s or %s", t.OnFailure, WaitOnFailure, FailFast, Isolate)
	}
	return nil
}

// checkFields returns an error if an object of a Go type, which may be unknown, cannot be cut down to fields.
func checkFields(fields []string, of reflect.Type) error {
	if fields == nil {
		return nil
	}
	kept, err := projection.New(fields)
	if err != nil {
		return err
	}
	return kept.Check(of)
}

// goType returns the Go type of a kind, nil if the scheme has none.
func goType(scheme *runtime.Scheme, gvk schema.GroupVersionKind) reflect.Type {
	if obj, err := scheme.New(gvk); err == nil {
		return reflect.TypeOf(obj)
	}
	return nil
}

// checkNewInformer returns an error if a setting is set that informers of the user's cannot have.
func (t *Tuning) checkNewInformer() error {
	for _, settings := range append(slices.Collect(maps.Values(t.ByObject)), t.TuningByObject) {
		refused := ""
		switch {
		case settings.Storage != "" && settings.Storage != SeparateMetadata:
			refused = "Storage " + string(settings.Storage)
		case settings.Window != 0:
			refused = "Window"
		case ptr.Deref(settings.Optional, false):
			refused = "Optional"
		case settings.MaxBytes != 0 || t.MaxBytes != 0:
			refused = "MaxBytes"
		case settings.Whole != nil:
			refused = "Whole"
		default:
			continue
		}
		return fmt.Errorf("cache tuning: %s cannot be set with the option NewInformer, whose informers decide how they keep objects, with how many bytes, and tell handlers", refused)
	}
	return nil
}

// apply sets the fields of o that t determines.
func (t *Tuning) apply(o *informers.Shared) (err error) {
	if o.Tuning, err = t.byKind(o.Scheme); err != nil {
		return err
	}
	if t.LeaseIdleTime < 0 {
		return fmt.Errorf("cache tuning: the LeaseIdleTime is %s; use 0 for the default, or a short time", t.LeaseIdleTime)
	}
	if t.MaxBytes < 0 {
		return fmt.Errorf("cache tuning: the MaxBytes is %d; use 0 for no bound", t.MaxBytes)
	}
	if o.NewInformer != nil {
		if err := t.checkNewInformer(); err != nil {
			return err
		}
	}
	if t.anyOptional() {
		if o.Served, err = served.New(o.Config, o.HTTPClient, o.Logger); err != nil {
			return fmt.Errorf("cache tuning: Optional: %w", err)
		}
	}
	o.VerifyFlat = t.VerifyFlat
	o.DecodedBudget = object.NewBudget(t.DecodedBudget)
	o.OwnWrites = pending.NewBudget(t.OwnWritesBudget)
	if o.Metrics, err = t.metrics(o.Name); err != nil { // the last, because it is registered
		return fmt.Errorf("cache tuning: Registerer: %w", err)
	}
	return nil
}

// metrics returns the metrics of the cache with that name, nil for none.
func (t *Tuning) metrics(cache string) (*metrics.Metrics, error) {
	o := metrics.Options{Cache: cache, Registerer: t.Registerer, ByNamespace: t.MetricsByNamespace}
	switch {
	case t.NoMetrics && t.Registerer != nil:
		return nil, errors.New("NoMetrics is set as well: remove one of the two")
	case t.NoMetrics:
		return nil, nil
	case t.Registerer == nil:
		o.Registerer = crmetrics.Registry
	}
	return metrics.New(o)
}

// anyOptional reports whether a kind may be absent.
func (t *Tuning) anyOptional() bool {
	for _, settings := range t.ByObject {
		if ptr.Deref(settings.Optional, false) {
			return true
		}
	}
	return ptr.Deref(t.Optional, false)
}
