// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"maps"
	"slices"

	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/postings"
	"github.com/tarn-dev/tarn/internal/stats"
)

// Stats are figures of a store and of its reads. Counters begin with the store and never go back.
type Stats struct {
	// Reads has the plans by which something was read, in their order.
	Reads []ReadStats
	// LabelScans is how many lists by labels have compared more than 128 objects, because no index
	// answers them.
	LabelScans uint64
	// Store has figures of the store; it is nil for the store of an informer that the user made.
	Store *StoreStats
}

// ReadStats are the reads by one plan. A list of several namespaces, and each page of a list, is one
// read.
type ReadStats struct {
	Plan  ReadPlan
	Count uint64
	// Durations are those of lists, and of one in 64 Gets. They have waits for a version, and for
	// what the program has written, but none for the informer.
	Durations stats.Durations
}

// StoreStats are figures of the store of an informer of ours.
type StoreStats struct {
	// Objects is the number of objects, and Revision the version up to which they are complete.
	Objects  int
	Revision uint64
	// Indexes are those of fields and labels, sorted by name.
	Indexes []IndexStats
	// Shared are decoded objects that are kept for reads without copies, and OwnWrites pending
	// writes. KeptStates is the number of states that are kept for lists with pages to come.
	Shared                object.SharedSize
	OwnWrites, KeptStates int
	Memory                Memory
}

// IndexStats are figures of an index.
type IndexStats struct {
	// Name is the name of the field, or the key of the label if Label is set.
	Name  string
	Label bool
	// Pairs is the number of pairs of a value and an object, and Bytes about the memory of the index.
	Pairs, Bytes int
	// Hits is how many lists the index has answered.
	Hits uint64
}

// Memory is about how many bytes the parts of a store take.
type Memory struct {
	// Flat and Decoded are the objects in either form, with their keys. Tree is what keeps them in
	// order, and Dictionary the strings that flat objects share.
	Flat, Decoded, Tree, Dictionary int
	// FieldIndexes are the declared indexes, and LabelIndexes the indexes made on demand.
	FieldIndexes, LabelIndexes int
	// Shared is for the decoded objects that reads without copies share, Retained for the retained
	// bytes of old states, and OwnWrites for pending writes.
	Shared, Retained, OwnWrites int
}

// Stats implements Store.
func (s *Engine) Stats() Stats {
	counted := s.reads.stats()
	counted.Store = s.figures()
	return counted
}

// Stats implements Store.
func (s *Indexer) Stats() Stats { return s.reads.stats() }

// stats returns how often something was read, by each plan.
func (r *Reads) stats() (s Stats) {
	s.LabelScans = r.missing.Load()
	for p := range plans {
		count := r.lists[p].Load()
		if p == ReadKey {
			count += r.gets.Load()
		}
		if count > 0 {
			s.Reads = append(s.Reads, ReadStats{p, count, r.durations[p].Read()})
		}
	}
	return s
}

func (s *Engine) figures() *StoreStats {
	snapshot := s.engine.Snapshot()
	bytes := s.size.of(snapshot)
	made := &StoreStats{
		Objects: snapshot.Len(), Revision: snapshot.Revision(), Shared: s.Shared(),
		Memory: Memory{Flat: bytes.flat, Decoded: bytes.decoded, Tree: bytes.tree, Dictionary: s.form.DictionaryBytes()},
	}
	m := &made.Memory
	m.Shared = int(made.Shared.Bytes)
	made.OwnWrites, m.OwnWrites = s.OwnWrites()
	made.KeptStates, m.Retained = s.kept.size()
	hits := s.reads.used(snapshot)
	indexes := maps.Collect(snapshot.Indexes())
	for _, name := range slices.Sorted(maps.Keys(indexes)) {
		pairs := indexes[name]
		one := IndexStats{Name: postings.FieldOf(name), Pairs: pairs.Len(), Bytes: pairs.Bytes(), Hits: hits[name]}
		if key, ok := postings.LabelOf(name); ok {
			one.Name, one.Label = key, true
			m.LabelIndexes += one.Bytes
		} else {
			m.FieldIndexes += one.Bytes
		}
		made.Indexes = append(made.Indexes, one)
	}
	return made
}
