// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/pending"
	"github.com/tarn-dev/tarn/internal/postings"
	"github.com/tarn-dev/tarn/internal/query"
)

// Plan says how a list would be answered now.
type Plan struct {
	// By is what the list would be counted as. If the selectors exclude each other it is ReadKey, without
	// a candidate.
	By ReadPlan
	// Index names the index: "field:" or "label:" and the field or label.
	Index string
	// Candidates is how many objects would be looked at without a limit, and Objects how many there
	// are.
	Candidates, Objects int
	// Whole says that all candidates match: none is compared with the selectors.
	Whole bool
	// Missing are the names of the indexes that the store would make if lists like this one went on.
	Missing []string
}

// Plan implements Store.
func (s *Engine) Plan(r *Request) Plan {
	q, state := s.query(r), s.engine.Snapshot()
	e := query.Explain(state, q)
	p := Plan{By: r.way(e.Index, e.Candidates).Plan, Index: readable(e.Index), Candidates: e.Candidates, Objects: state.Len(), Whole: e.Whole}
	for _, name := range s.planner.Missing(q) {
		p.Missing = append(p.Missing, readable(name))
	}
	return p
}

// readable returns the name of an index without the zero byte that tells labels from fields.
func readable(name string) string { return strings.Replace(name, "\x00", ":", 1) }

// Plan implements Store. It follows candidates.
func (s *Indexer) Plan(q *Request) Plan {
	p := Plan{Objects: len(s.indexer.ListKeys()), Whole: q.counted() && q.Namespace == ""}
	if q.Key == "" {
		for field := range q.Fields.Equals() {
			p.Index = postings.Name(field)
			break
		}
	}
	p.By = q.way(p.Index, 0).Plan
	if found, err := s.candidates(q); err == nil {
		p.Candidates = len(found)
	}
	return p
}

// PendingWrite is a write of the program that the watch has not shown yet. Reads show it, unless they
// are AsCached.
type PendingWrite struct {
	Key client.ObjectKey
	// Outcome says what is known of the object. "shown": it was created or changed. "hidden" or "gone":
	// it is deleted or has left the scope. "ambiguous": reads ask the server.
	Outcome string
	// Revision is the resourceVersion of the write, or zero if it is not known.
	Revision uint64
	Noted    time.Time
	Bytes    int
}

// PendingWrites implements Store.
func (s *Engine) PendingWrites(limit int) (all []PendingWrite) {
	for _, p := range s.own.Load().All(pending.Target{All: true}, limit) {
		all = append(all, writeOf(p))
	}
	return all
}

// PendingWrite implements Store.
func (s *Engine) PendingWrite(key client.ObjectKey) (w PendingWrite, ok bool) {
	for _, p := range s.own.Load().All(pending.Target{Key: s.keyOf(key)}, 1) {
		return writeOf(p), true
	}
	return w, false
}

// PendingWrites implements Store: nothing is noted in a store of client-go's kind.
func (s *Indexer) PendingWrites(int) []PendingWrite { return nil }

// PendingWrite implements Store.
func (s *Indexer) PendingWrite(client.ObjectKey) (PendingWrite, bool) {
	return PendingWrite{}, false
}

// DropPages implements Store.
func (s *Engine) DropPages() { s.kept.clear() }

// DropShared implements Store.
func (s *Engine) DropShared() { s.form.DropShared() }

// DropShared implements Store.
func (*Indexer) DropShared() {}

// DropPages implements Store.
func (s *Indexer) DropPages() { s.kept.clear() }

func writeOf(p pending.Pending) PendingWrite {
	namespace, name := object.SplitKey(p.Key)
	return PendingWrite{
		Key: client.ObjectKey{Namespace: namespace, Name: name}, Outcome: p.Outcome.String(),
		Revision: p.Revision, Noted: p.Noted, Bytes: p.Bytes,
	}
}
