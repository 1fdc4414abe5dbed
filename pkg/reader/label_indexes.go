// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"github.com/tarn-dev/tarn/pkg/index"
)

// askForIndexes says which labels q would be spared work by, so that they are indexed.
func (s *Engine) askForIndexes(q query) {
	var names []string
	for _, key := range s.worthIndexing(q) {
		names = append(names, index.LabelName(key))
	}
	s.labels.Ask(names...)
}

// worthIndexing returns the labels whose indexes would spare q work: none if there is
// little to look at anyway.
func (s *Engine) worthIndexing(q query) []string {
	prefix := Prefix(q.namespace)
	keys := index.LabelKeysIn(q.labels, prefix)
	if len(keys) == 0 || q.key != "" || q.fields.Nothing() {
		return nil
	}
	snapshot := s.engine.Snapshot()
	if _, few := index.NewPlan(nil, q.fields, snapshot.Index, prefix, index.ScanWorth+1); few || snapshot.Count(prefix, "") <= index.ScanWorth {
		return nil
	}
	return keys
}

// LabelIndexes is what the label indexes of a store take.
type LabelIndexes struct {
	// Number of indexes.
	Number int
	// Postings is how many pairs of a value and an object they hold.
	Postings int
	// Bytes is an estimate of the memory that they take.
	Bytes int
}

// LabelIndexes returns what the label indexes take now.
func (s *Engine) LabelIndexes() LabelIndexes {
	names := s.labels.Asked()
	size, snapshot := LabelIndexes{Number: len(names)}, s.engine.Snapshot()
	for _, name := range names {
		if postings := snapshot.Index(name); postings != nil {
			size.Postings += postings.Len()
			size.Bytes += postings.Bytes()
		}
	}
	return size
}
