// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/pending"
	"github.com/tarn-dev/tarn/internal/postings"
	"github.com/tarn-dev/tarn/internal/query"
)

// Plan says how a list would be answered from the state of now.
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
	p := Plan{By: r.way(e.Index, e.Candidates).plan, Index: readable(e.Index), Candidates: e.Candidates, Objects: state.Len(), Whole: e.Whole}
	for _, name := range s.planner.Missing(q) {
		p.Missing = append(p.Missing, readable(name))
	}
	return p
}

// readable returns the name of an index without the zero byte that tells labels from fields.
func readable(name string) string { return strings.Replace(name, "\x00", ":", 1) }

// plan follows candidates.
func (s *IndexerStore) plan(q *request) Plan {
	p := Plan{Objects: len(s.indexer.ListKeys()), Whole: q.counted() && q.namespace == ""}
	if q.key == "" {
		for field := range q.fields.Equals() {
			p.Index = postings.Name(field)
			break
		}
	}
	p.By = q.way(p.Index, 0).plan
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
	// and "gone" one that is deleted or has left the scope; of an "ambiguous" one reads ask the server.
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
	for _, p := range s.own.All(limit) {
		all = append(all, pendingWrite(p))
	}
	return all
}

// PendingWrite returns the write that lies over an object, if there is one. The namespace of the key is
// ignored for a cluster-scoped kind.
func (r *CacheReader) PendingWrite(key client.ObjectKey) (PendingWrite, bool) {
	s, ok := r.store.(*EngineStore)
	if !ok {
		return PendingWrite{}, false
	}
	if r.ClusterScoped() {
		key.Namespace = ""
	}
	p, ok := s.own.At(object.Key(key.Namespace, key.Name))
	return pendingWrite(p), ok
}

func pendingWrite(p pending.Pending) PendingWrite {
	namespace, name := object.SplitKey(p.Key)
	return PendingWrite{
		Key: client.ObjectKey{Namespace: namespace, Name: name}, Outcome: p.Outcome.String(),
		Revision: p.Revision, Noted: p.Noted, Bytes: p.Bytes,
	}
}
