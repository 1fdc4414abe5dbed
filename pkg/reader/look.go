// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Look is [List], from this reader and others, for people who look at a cache, and leaves no trace in it: it is counted nowhere, teaches
// no index, and keeps no state. So each page is read from the state of its time: what was written between
// two pages may be missing, or be on a page although it was not there when the first one was read. Pending
// writes are not in it.
//
// The Continue tokens of Look are for Look alone.
func (r *CacheReader) Look(ctx context.Context, out client.ObjectList, opts *client.ListOptions, others ...*CacheReader) error {
	readers := append([]*CacheReader{r}, others...)
	s := newSelected(readers)
	if opts.Continue != "" {
		at, err := decode(opts.Continue)
		if err != nil || len(at.States) > 0 || at.After == "" {
			return apierrors.NewBadRequest("continue key is not valid: it did not come from such a list")
		}
		s.at.After = at.After
	}
	watched := *opts
	watched.DisableReadYourWritesConsistency = true
	if err := s.gather(ctx, &watched, readers, true); err != nil {
		return err
	}
	if err := fill(out, s, opts.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	out.SetResourceVersion(s.version)
	out.SetContinue("")
	out.SetRemainingItemCount(nil)
	if s.rest > 0 {
		out.SetContinue(token{After: s.items[len(s.items)-1].Key}.encode())
		s.tellRest(out, opts)
	}
	return nil
}
