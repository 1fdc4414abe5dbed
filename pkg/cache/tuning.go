// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/informers"
)

// Tuning are the options for which controller-runtime has no word. The zero value is
// what New uses.
type Tuning struct {
	// Decoded are the kinds whose objects are kept decoded, in all representations:
	// for a kind of few objects that is read very often. Kinds with
	// UnsafeDisableDeepCopy are kept decoded anyway, and so are types that cannot be
	// flat without loss.
	Decoded []client.Object
	// AllDecoded keeps the objects of every kind decoded, as client-go does.
	AllDecoded bool

	// Window is the number of events that a handler may be behind: each informer keeps
	// those that some handler was not given yet, up to this number. A handler that falls
	// further behind gets one event for each object that has changed. Zero means
	// watchcache.DefaultWindow.
	Window int

	// SeparateViews gives metadata-only reads an informer of their own even if all of
	// the kind's objects are cached already. Without it those objects' metadata are
	// read, as a transform has left them, and no second watch is opened. (If not all
	// objects fit the Go type of the kind, a read of metadata has one of its own.)
	SeparateViews bool

	// VerifyFlat compares each object that is kept flat with its source, and panics if
	// they differ: for tests. The environment variable TARN_VERIFY_FLAT=true does the
	// same for every cache of the process.
	VerifyFlat bool

	// Registerer takes the metrics of the cache's informers, if it is set; caches may
	// share it: tarn_informer_objects, tarn_informer_handler_lagged_total,
	// tarn_informer_label_indexes and tarn_informer_label_index_bytes.
	Registerer prometheus.Registerer
}

// With returns a function that makes caches with t; like New it can be given to
// ctrl.Options.NewCache.
func With(t Tuning) NewCacheFunc {
	return func(cfg *rest.Config, opts Options) (Cache, error) {
		return newCache(cfg, opts, t)
	}
}

// check refuses what cannot be meant.
func (t *Tuning) check() error {
	if t.Window < 0 {
		return fmt.Errorf("cache tuning: Window is %d; use 0 for the default", t.Window)
	}
	for i, obj := range t.Decoded {
		if isNil(obj) {
			return fmt.Errorf("cache tuning: Decoded[%d] is nil: pass a pointer to an empty object of the kind", i)
		}
	}
	return nil
}

// apply sets what t says of informers.
func (t *Tuning) apply(o *informers.Options) error {
	metrics, err := informers.NewMetrics(t.Registerer)
	if err != nil {
		return fmt.Errorf("cache tuning: Registerer: %w", err)
	}
	o.Metrics = metrics
	o.Window = t.Window
	o.VerifyFlat = t.VerifyFlat
	o.Decoded = func(informers.Key) bool { return t.AllDecoded }
	if len(t.Decoded) == 0 || t.AllDecoded {
		return nil
	}
	decoded := map[schema.GroupVersionKind]bool{}
	for i, obj := range t.Decoded {
		gvk, err := kindOf(obj, o.Scheme)
		if err != nil {
			return fmt.Errorf("cache tuning: Decoded[%d]: %w", i, err)
		}
		decoded[gvk] = true
	}
	o.Decoded = func(key informers.Key) bool { return decoded[key.GroupVersionKind] }
	return nil
}
