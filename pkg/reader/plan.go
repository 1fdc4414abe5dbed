// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/query"
	"github.com/tarn-dev/tarn/pkg/index"
)

// The ways in which a store answers a list, see [Plan].
const (
	ByNothing = query.ByNothing
	ByKey     = query.ByKey
	ByIndex   = query.ByIndex
	ByScan    = query.ByScan
)

// Plan says how a list would be answered from the state of now.
type Plan struct {
	// By is ByNothing if the selectors exclude each other, ByKey if one object at most can match,
	// ByIndex if an index has the candidates, or ByScan if these are all objects, or all of the
	// namespace.
	By string
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

// Plan says how a list with these options would be answered now. It reads no object, and does not
// count as a list. The error is that of the list.
func (r *CacheReader) Plan(opts ...client.ListOption) (Plan, error) {
	o := client.ListOptions{}
	o.ApplyOptions(opts)
	q, err := r.request(&o, page{})
	if err != nil {
		return Plan{}, err
	}
	return r.store.plan(q), nil
}

func (s *EngineStore) plan(r *request) Plan {
	q, state := s.query(r), s.engine.Snapshot()
	e := query.Explain(state, q)
	p := Plan{By: e.By, Index: readable(e.Index), Candidates: e.Candidates, Objects: state.Len(), Whole: e.Whole}
	for _, name := range s.planner.Missing(q) {
		p.Missing = append(p.Missing, readable(name))
	}
	return p
}

// readable returns the name of an index without the zero byte that tells labels from fields.
func readable(name string) string { return strings.Replace(name, "\x00", ":", 1) }

// plan follows candidates.
func (s *IndexerStore) plan(q *request) Plan {
	p := Plan{By: ByScan, Objects: len(s.indexer.ListKeys()), Whole: q.counted() && q.namespace == ""}
	switch {
	case q.fields.Nothing():
		p.By, p.Whole = ByNothing, true
	case q.key != "":
		p.By = ByKey
	default:
		for field := range q.fields.Equals() {
			p.By, p.Index = ByIndex, index.Name(field)
			break
		}
	}
	if found, err := s.candidates(q); err == nil {
		p.Candidates = len(found)
	}
	return p
}

// PendingWrite is a write of the program that the watch has not shown yet. Reads show it, unless they
// are AsCached.
type PendingWrite struct {
	Key client.ObjectKey
	// Outcome says what is known of the object: "shown" is one that was created or changed, "hidden"
	// and "gone" one that is deleted or has left the scope; reads wait for the others.
	Outcome string
	// Revision is the resourceVersion of the write, or zero if it is not known.
	Revision uint64
	Noted    time.Time
	Bytes    int
}

// PendingWrites returns the first writes, up to limit, in the order of their keys.
func (r *CacheReader) PendingWrites(limit int) []PendingWrite {
	s, ok := r.store.(*EngineStore)
	if !ok {
		return nil
	}
	var all []PendingWrite
	for _, p := range s.own.Pending(limit) {
		namespace, name := object.SplitKey(p.Key)
		all = append(all, PendingWrite{
			Key: client.ObjectKey{Namespace: namespace, Name: name}, Outcome: p.Outcome.String(),
			Revision: p.Revision, Noted: p.Noted, Bytes: p.Bytes,
		})
	}
	return all
}
