// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/tarn-dev/tarn/internal/watchcache"
	"github.com/tarn-dev/tarn/pkg/cacher/internal/dispatch"
)

// Config says what a [Cacher] caches. All fields but Options have the names and meanings of
// upstream's k8s.io/apiserver/pkg/storage/cacher.Config, which is why there are more than twelve, the limit of tarn_test.go.
type Config struct {
	// Storage is the storage that the Cacher stands in front of. The caller closes it, after
	// Stop.
	Storage storage.Interface
	// Versioner reads and writes resource versions. The zero value means
	// storage.APIObjectVersioner.
	Versioner storage.Versioner
	// GroupResource is the resource, for errors, metrics and logs.
	GroupResource schema.GroupResource
	// ResourcePrefix begins the keys of all objects, e.g. "/pods/".
	ResourcePrefix string
	// KeyFunc returns the key of an object. GetAttrsFunc returns its labels and selectable
	// fields.
	KeyFunc      func(runtime.Object) (string, error)
	GetAttrsFunc storage.AttrFunc
	// IndexerFuncs has at most one entry, the trigger: a field by whose value watchers are
	// found.
	IndexerFuncs storage.IndexerFuncs
	// Indexers name the fields and labels that have an index from the start, by the names of
	// storage.FieldIndex and storage.LabelIndex. Their functions are not called. Other indexes
	// are made when lists ask for them and they pay.
	Indexers *toolscache.Indexers
	// NewFunc and NewListFunc make an empty object and an empty list of them.
	NewFunc     func() runtime.Object
	NewListFunc func() runtime.Object
	// Codec is the codec of the storage. It must know the type of NewFunc. CheckConsistency
	// compares what objects contain with it; without one, their metadata alone.
	Codec runtime.Codec
	// EventsHistoryWindow is the time for which events are kept at least. The zero value means
	// DefaultEventsHistoryWindow, less is refused.
	EventsHistoryWindow time.Duration
	// Clock is the system's if it is nil.
	Clock clock.WithTicker

	Options
}

// Options are what upstream's Cacher does not have. The zero value is of use.
type Options struct {
	// Decoded says whether objects are kept as Go values (true, and if it is nil), or flat
	// (false), which takes a tenth of the memory, and more work for each object of a list.
	// Objects that cannot be flat without loss are kept decoded in any case. A cache of
	// clients has the same option, with the other default: what it reads is copied anyway.
	Decoded *bool
	// HistoryEvents and HistoryBytes bound the events that are kept, whatever the
	// EventsHistoryWindow; only the newest one is kept in any case. HistoryBytes counts the
	// objects that events have replaced or deleted, of whatever type, as they are kept: flat
	// or decoded, with all memory that they refer to. An event itself takes about 200 bytes
	// more. The zero values mean DefaultHistoryEvents and DefaultHistoryBytes.
	HistoryEvents int
	HistoryBytes  int
	// HistoryBudget bounds the same bytes for all Cachers that have it; nil is no bound.
	HistoryBudget *HistoryBudget
	// ConsistencyInterval is the time between two comparisons of the objects in the cache with
	// those in the storage, by digests; zero means none. CheckConsistency compares on request.
	ConsistencyInterval time.Duration
	// OnInconsistency is called when they differ; nil logs an error. Lists are answered
	// by the storage then until they agree again.
	OnInconsistency func(error)
	// Registerer registers the metrics, maybe of several Cachers; nil registers none.
	Registerer prometheus.Registerer
	// Logger is silent if it is the zero value.
	Logger logr.Logger
}

// DefaultEventsHistoryWindow is 75 seconds, as upstream's: the time between two bookmarks and
// some more, so that a watcher which resumes from its last bookmark finds the events since then.
const DefaultEventsHistoryWindow = dispatch.BookmarkFrequency + 15*time.Second

const (
	// DefaultHistoryEvents is the upper bound of upstream's Cacher.
	DefaultHistoryEvents = 100 * 1024
	// DefaultHistoryBytes lets the history of one resource take as much memory as some
	// ten thousand Pods that are kept decoded.
	DefaultHistoryBytes = 256 << 20
)

// HistoryBudget bounds what the histories of several Cachers hold together, in the bytes of [Options].HistoryBytes. Each may hold half
// of what the others leave free, and its newest event. A Cacher gives its part back when it stops. It is safe for concurrent use.
type HistoryBudget struct{ shared *watchcache.Budget }

// NewHistoryBudget returns a budget of so many bytes.
func NewHistoryBudget(bytes int) *HistoryBudget { return &HistoryBudget{watchcache.NewBudget(bytes)} }

// Held returns how many bytes the histories hold now.
func (b *HistoryBudget) Held() int { return b.shared.Held() }

// withDefaults returns the configuration with the zero values replaced, or what is wrong
// with it.
func (c Config) withDefaults() (Config, error) {
	for name, missing := range map[string]bool{
		"Storage": c.Storage == nil, "KeyFunc": c.KeyFunc == nil, "GetAttrsFunc": c.GetAttrsFunc == nil,
		"NewFunc": c.NewFunc == nil, "NewListFunc": c.NewListFunc == nil,
	} {
		if missing {
			return c, fmt.Errorf("cacher of %s: Config.%s must be set", c.GroupResource, name)
		}
	}
	if c.Versioner == nil {
		c.Versioner = storage.APIObjectVersioner{}
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if c.EventsHistoryWindow == 0 {
		c.EventsHistoryWindow = DefaultEventsHistoryWindow
	}
	if c.HistoryEvents == 0 {
		c.HistoryEvents = DefaultHistoryEvents
	}
	if c.HistoryBytes == 0 {
		c.HistoryBytes = DefaultHistoryBytes
	}
	if c.Logger.GetSink() == nil {
		c.Logger = logr.Discard()
	}
	return c, c.validate()
}

func (c Config) validate() error {
	var errs []error
	switch {
	case c.ResourcePrefix == "" || c.ResourcePrefix == "/":
		errs = append(errs, fmt.Errorf("the ResourcePrefix cannot be %q", c.ResourcePrefix))
	case !strings.HasPrefix(c.ResourcePrefix, "/"):
		errs = append(errs, fmt.Errorf("the ResourcePrefix %q needs to start with /", c.ResourcePrefix))
	}
	if len(c.IndexerFuncs) > 1 {
		errs = append(errs, fmt.Errorf("there are %d IndexerFuncs, at most one is supported", len(c.IndexerFuncs)))
	}
	if c.EventsHistoryWindow < DefaultEventsHistoryWindow {
		errs = append(errs, fmt.Errorf("the EventsHistoryWindow %v must not be below %v", c.EventsHistoryWindow, DefaultEventsHistoryWindow))
	}
	if c.HistoryEvents < 0 || c.HistoryBytes < 0 || c.ConsistencyInterval < 0 {
		errs = append(errs, errors.New("HistoryEvents, HistoryBytes and ConsistencyInterval must not be negative"))
	}
	if c.Codec != nil {
		if err := runtime.CheckCodec(c.Codec, c.NewFunc()); err != nil {
			errs = append(errs, fmt.Errorf("the storage codec doesn't seem to match the type: %w", err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("cacher of %s: %w", c.GroupResource, err)
	}
	return nil
}
