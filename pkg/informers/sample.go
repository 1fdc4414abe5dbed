// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"iter"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/informer"
	"github.com/tarn-dev/tarn/internal/inspected"
	"github.com/tarn-dev/tarn/internal/metrics"
	"github.com/tarn-dev/tarn/internal/store"
)

// shown is an entry as its metrics and package inspect see it.
type shown struct{ *MapEntry }

var _ inspected.Informer = shown{}

// Inspected returns what package inspect shows of the entry. It is for the packages of Tarn: others have the other methods.
func (e *MapEntry) Inspected() inspected.Informer { return shown{e} }

// Series implements metrics.Informer.
func (e shown) Series() metrics.Series {
	return metrics.Series{GroupVersionKind: e.key.GroupVersionKind, Representation: e.key.Representation.String(), Namespace: e.scope.namespace}
}

// Sample implements metrics.Informer. The figures of a view are those of the informer below it.
func (e shown) Sample() metrics.Sample {
	phase, _ := e.phase()
	s := metrics.Sample{Phase: phase.Label(), Age: -1, Reads: e.store.Stats(), Requests: e.failures.Counters().Stats()}
	if why := e.NotSynced(); why != nil {
		s.Cause = why.Cause.Label()
	}
	if age, known := e.Age(); known && phase != inspected.Dormant {
		s.Age = age
	}
	window := informer.Memory{}
	if base := e.base(); base != nil {
		made := base.Stats()
		window = base.Memory()
		s.Informer = &made
		s.Incomplete = map[string]uint64{TransformFailed.Label(): uint64(made.Lost), IndexFailed.Label(): uint64(made.Unindexed)}
	}
	if e.pending != nil {
		s.Unconfirmed = map[string]uint64{"deadline": e.pending.unconfirmed.Load(), "budget": e.pending.noRoom.Load()}
	}
	s.Memory = memory(s.Reads.Store, window)
	return s
}

// memory walks the parts of an informer with about how many bytes each takes.
func memory(of *store.StoreStats, window informer.Memory) iter.Seq2[string, int] {
	return func(yield func(string, int) bool) {
		kept := store.Memory{}
		if of != nil {
			kept = of.Memory
		}
		_ = yield("flat", kept.Flat) && yield("decoded", kept.Decoded) && yield("tree", kept.Tree) &&
			yield("dictionary", kept.Dictionary) && yield("field_indexes", kept.FieldIndexes) &&
			yield("label_indexes", kept.LabelIndexes) && yield("shared", kept.Shared) && yield("window", window.Window) &&
			yield("walks", window.Replay) && yield("pinned", kept.Retained) && yield("own_writes", kept.OwnWrites)
	}
}

// Bytes returns about how many bytes the informer takes, and how many of them DropShared would free. Both are zero of an informer that
// the user made. Entries that share a watch have the same bytes.
func (e *MapEntry) Bytes() (all, shared int) {
	base := e.base()
	if base == nil {
		return 0, 0
	}
	kept := e.store.Stats().Store
	for _, bytes := range memory(kept, base.Memory()) {
		all += bytes
	}
	return all, kept.Memory.Shared
}

// DropShared drops the decoded objects that reads without copies share: later ones decode again.
func (e *MapEntry) DropShared() { e.store.DropShared() }

// PendingWrites implements inspected.Informer.
func (e shown) PendingWrites(limit int) []store.PendingWrite { return e.store.PendingWrites(limit) }

// PendingWrite implements inspected.Informer.
func (e shown) PendingWrite(key client.ObjectKey) (store.PendingWrite, bool) {
	return e.store.PendingWrite(key)
}

// Selects implements inspected.Informer.
func (e shown) Selects() string { return e.scope.selector.Describe(e.scope.rule.Describe()) }

// Kept implements inspected.Informer.
func (e shown) Kept() string { return e.scope.rule.Kept() }

// Watch implements inspected.Informer.
func (e shown) Watch() any { return e.failures }
