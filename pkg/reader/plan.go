// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/store"
)

// Plan says how a list would be answered from what the store has now.
type Plan struct {
	// By is what the list would be counted as, in the words of the label "plan" of metrics, from the cheapest to the dearest:
	// "key" for one object at most, "index", "all", and "scan" if all are compared with the selectors. If the selectors exclude
	// each other it is "key", without a candidate.
	By string
	// Index names the index: "field:" or "label:" and the field or label.
	Index string
	// Candidates is how many objects would be looked at without a limit, and Objects how many there are.
	Candidates, Objects int
	// Whole says that all candidates match: none is compared with the selectors.
	Whole bool
	// Missing are the names of the indexes that the store would make if lists like this one went on.
	Missing []string
}

// Plan says how a list with these options would be answered now. It reads no object, and does not count as a list. The error
// is the error of the list.
func (r *CacheReader) Plan(opts ...client.ListOption) (Plan, error) {
	o := client.ListOptions{}
	o.ApplyOptions(opts)
	q, err := r.request(&o, store.Page{})
	if err != nil {
		return Plan{}, err
	}
	p := r.store.Plan(q)
	return Plan{By: p.By.String(), Index: p.Index, Candidates: p.Candidates, Objects: p.Objects, Whole: p.Whole, Missing: p.Missing}, nil
}
