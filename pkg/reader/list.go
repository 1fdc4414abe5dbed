// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// continueNotSupported is what controller-runtime's cache writes into the
// continue field of every list. A list that is complete has no continuation, so
// ours is empty; but controller-runtime's own test suite asserts this text for a
// list without any option ("should return an error if pagination is used"), and
// the error for using it.
const continueNotSupported = "continue-not-supported"

var errContinue = errors.New("continue list option is not supported by the cache")

// listed is an item and the reader that it is from.
type listed struct {
	item
	from *CacheReader
}

// List reads what matches opts in all readers, which hold disjoint scopes of one
// kind, into out: sorted by namespace and name, at most opts.Limit of it. A list
// that is cut short has a Continue token, with which the next page is read from
// the same state; too old a token is a ResourceExpired API error (410).
//
// The resourceVersion of the list is one that every scope has reached: the list
// holds every change up to it, and may hold later ones.
func List(_ context.Context, out client.ObjectList, opts *client.ListOptions, readers ...*CacheReader) error {
	if opts.Continue == continueNotSupported {
		return errContinue
	}
	at := token{States: make([]uint64, len(readers))}
	if opts.Continue != "" {
		var err error
		if at, err = decodeToken(opts.Continue, len(readers)); err != nil {
			return err
		}
	}
	var (
		items   []listed
		version string
	)
	for i, r := range readers {
		answer, err := r.find(opts, page{limited: opts.Limit > 0, state: at.States[i], after: at.After})
		if err != nil {
			return err
		}
		for _, it := range answer.items {
			items = append(items, listed{it, r})
		}
		if i == 0 || older(answer.revision, version) {
			version = answer.revision
		}
		at.States[i] = answer.state
	}
	if len(readers) > 1 {
		slices.SortFunc(items, func(a, b listed) int { return strings.Compare(a.key, b.key) })
	}
	rest := cut(&items, opts.Limit)
	if err := fill(out, items, opts.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	out.SetResourceVersion(version)
	out.SetContinue("")
	out.SetRemainingItemCount(nil)
	switch {
	case rest > 0:
		at.After = items[len(items)-1].key
		out.SetContinue(at.encode())
		if opts.LabelSelector == nil && opts.FieldSelector == nil { // as the API server does
			out.SetRemainingItemCount(&rest)
		}
	case unconstrained(opts):
		out.SetContinue(continueNotSupported)
	}
	return nil
}

// cut takes away what is over the limit and returns how much that was.
func cut(items *[]listed, limit int64) (rest int64) {
	if limit > 0 && int64(len(*items)) > limit {
		rest = int64(len(*items)) - limit
		*items = (*items)[:limit]
	}
	return rest
}

// unconstrained reports that no option restricts the list.
func unconstrained(o *client.ListOptions) bool {
	return o.Namespace == "" && o.LabelSelector == nil && o.FieldSelector == nil && o.Limit == 0 && o.Continue == ""
}

// older reports whether resource version a is before b. One that cannot be
// compared, such as that of a store that knows none, counts as the oldest.
func older(a, b string) bool {
	c, err := resourceversion.CompareResourceVersion(a, b)
	if err != nil {
		return a == ""
	}
	return c < 0
}

// find returns the objects that match opts.
func (r *CacheReader) find(opts *client.ListOptions, at page) (found, error) {
	if r.scope == meta.RESTScopeNameRoot && opts.Namespace != "" {
		return found{}, fmt.Errorf("cannot list %s in namespace %q: the kind is cluster-scoped, list it without a namespace", r.gvk.Kind, opts.Namespace)
	}
	selection, err := r.fields.Select(opts.FieldSelector)
	if err != nil {
		return found{}, err
	}
	return r.store.find(query{namespace: opts.Namespace, labels: opts.LabelSelector, fields: selection, page: at})
}
