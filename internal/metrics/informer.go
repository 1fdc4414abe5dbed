// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"iter"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarn-dev/tarn/internal/informer"
	"github.com/tarn-dev/tarn/internal/listwatch"
	"github.com/tarn-dev/tarn/internal/store"
)

// Series is what the informers have in common that share series.
type Series struct {
	schema.GroupVersionKind
	Representation, Namespace string
}

func (s Series) labels() []string {
	return []string{s.Group, s.Version, s.Kind, s.Representation, s.Namespace}
}

// Informer is an informer as its metrics see it. It can be the key of a map.
type Informer interface {
	// Series returns the series of the informer. They are always the same, and have the namespace to which the
	// informer is restricted.
	Series() Series
	// Sample returns the figures of now.
	Sample() Sample
}

// Sample are the figures of an informer. Counters begin with the informer and never go back.
type Sample struct {
	// Phase is where the informer is in its life, and Cause why it does not hold what the API server has,
	// or empty: both as labels have them.
	Phase, Cause string
	// Age is the time since the API server told the informer anything, or negative if there is no such time.
	Age time.Duration
	// Informer is nil if the user made the informer. Then only Phase, Cause, Age, Reads and Requests are used.
	Informer *informer.Stats
	Reads    store.Stats
	Requests listwatch.Stats
	// Incomplete is how many objects are missing, by the cause; Unconfirmed how many own writes are not shown any
	// more, by the reason; and Memory walks the parts of the informer with their bytes.
	Incomplete, Unconfirmed map[string]uint64
	Memory                  iter.Seq2[string, int]
}
