// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/store"
)

// List reads what matches opts in all readers, which hold disjoint scopes of one
// kind, into out: sorted by namespace and name, at most opts.Limit of it. A list
// that is cut short has a Continue token, with which the next page is read from
// the same state; too old a token is a ResourceExpired API error (410). The caller passes the same selectors and the same
// namespace for every page: the token does not hold them.
//
// Every scope has reached the resourceVersion of the list: the list holds every change up to it,
// and may hold later ones.
func List(ctx context.Context, out client.ObjectList, opts *client.ListOptions, readers ...*CacheReader) error {
	counted := countsOf(readers)
	begin := counted.Begin()
	selected, err := selectItems(ctx, opts, readers)
	if err != nil {
		return err
	}
	defer counted.Listed(selected.plan, begin)
	if err := fill(out, selected, opts.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	out.SetResourceVersion(selected.version)
	out.SetContinue("")
	out.SetRemainingItemCount(nil)
	if selected.rest > 0 {
		out.SetContinue(selected.next())
		selected.tellRest(out, opts)
		return nil
	}
	selected.finish(readers)
	if unconstrained(opts) {
		out.SetContinue(continueNotSupported)
	}
	return nil
}

// List is [List] on this reader alone.
func (r *CacheReader) List(ctx context.Context, out client.ObjectList, opts ...client.ListOption) error {
	o := client.ListOptions{}
	o.ApplyOptions(opts)
	return List(ctx, out, &o, r)
}

// tellRest says how many objects follow a page, where an API server does.
func (s *selected) tellRest(out client.ObjectList, opts *client.ListOptions) {
	if store.Unrestricted(opts.LabelSelector) && (opts.FieldSelector == nil || opts.FieldSelector.Empty()) {
		rest := s.rest // a caller that keeps the metadata must not keep what was read
		out.SetRemainingItemCount(&rest)
	}
}

// unconstrained reports that no option restricts the list.
func unconstrained(o *client.ListOptions) bool {
	return o.Namespace == "" && o.LabelSelector == nil && o.FieldSelector == nil && o.Limit == 0 && o.Continue == ""
}
