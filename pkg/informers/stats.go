// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"errors"
	"iter"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/informer"
	"github.com/tarn-dev/tarn/internal/listwatch"
	"github.com/tarn-dev/tarn/internal/store"
)

// Stats are figures of an informer, with those of its requests and of the reads of its store. Counters
// begin with the informer and never go back.
type Stats struct {
	// Key is the kind and the representation that is cached. Namespace is the namespace of the map;
	// it is empty for all namespaces.
	Key
	Namespace string
	// Informer is nil if the user made the informer.
	Informer *informer.Stats
	Reads    store.Stats
	Requests listwatch.Stats
	// Unconfirmed is how many writes of the program the watch has not shown in five minutes: reads have
	// shown them until then. NoRoom is how often there was no room for more writes, told once until
	// there is room again.
	Unconfirmed, NoRoom uint64
}

// Stats returns the figures of now. Those of a view are those of the informer below it.
func (e *MapEntry) Stats() Stats {
	s := Stats{Key: e.key, Namespace: e.scope.namespace, Reads: e.store.Stats(), Requests: e.failures.Counters().Stats()}
	if own := e.ours(); own != nil {
		made := own.Stats()
		s.Informer = &made
	}
	if e.own != nil {
		s.Unconfirmed, s.NoRoom = e.own.unconfirmed.Load(), e.own.noRoom.Load()
	}
	return s
}

// PendingWrites returns the first writes of the program that the watch has not shown, up to limit, in the order of
// their keys.
func (e *MapEntry) PendingWrites(limit int) []store.PendingWrite {
	return e.store.PendingWrites(limit)
}

// PendingWrite returns the write that lies over an object, if there is one. The namespace of the key is
// ignored for a cluster-scoped kind.
func (e *MapEntry) PendingWrite(key client.ObjectKey) (store.PendingWrite, bool) {
	return e.store.PendingWrite(key)
}

// Memory walks the parts of the informer with about how many bytes each takes.
func (s *Stats) Memory() iter.Seq2[string, int] {
	return func(yield func(string, int) bool) {
		kept, own := store.Memory{}, informer.Memory{}
		if s.Reads.Store != nil {
			kept = s.Reads.Store.Memory
		}
		if s.Informer != nil {
			own = s.Informer.Memory
		}
		_ = yield("flat", kept.Flat) && yield("decoded", kept.Decoded) && yield("tree", kept.Tree) &&
			yield("dictionary", kept.Dictionary) && yield("field_indexes", kept.FieldIndexes) &&
			yield("label_indexes", kept.LabelIndexes) && yield("shared", kept.Shared) && yield("window", own.Window) &&
			yield("walks", own.Replay) && yield("pinned", kept.Pinned) && yield("own_writes", kept.OwnWrites)
	}
}

// stopped returns the reason for which a watch ended whose context has ended with a cause.
func stopped(cause error) listwatch.Reason {
	switch {
	case errors.Is(cause, informer.ErrWentBack):
		return listwatch.Restored
	case errors.Is(cause, informer.ErrDormant):
		return listwatch.Absent
	}
	return listwatch.Stopped
}
