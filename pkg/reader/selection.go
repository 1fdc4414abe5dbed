// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/postings"
	"github.com/tarn-dev/tarn/internal/store"
	"github.com/tarn-dev/tarn/internal/watchcache"
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
	*store.Item
	from *CacheReader
}

// selected is what a list, or a page of one, selects.
type selected struct {
	items []listed // in the order of their keys
	// all, if set, has the objects in place of items; they are from the only reader.
	all  *watchcache.Snapshot[object.Object]
	only *CacheReader

	rest    int64          // how many follow; without a count, more than none if any do
	version string         // that all readers have reached
	at      token          // with which the caller came
	states  []store.State  // what each reader has read
	plan    store.ReadPlan // the dearest of all readers

	// The arrays of at.States and states for a list of one reader, as most lists are.
	name  [1]uint64
	state [1]store.State
}

func newSelected(readers []*CacheReader) *selected {
	s := &selected{}
	if len(readers) == 1 {
		s.only, s.at.States, s.states = readers[0], s.name[:], s.state[:]
	} else {
		s.at.States, s.states = make([]uint64, len(readers)), make([]store.State, len(readers))
	}
	return s
}

// selectItems finds what matches opts in all readers.
func selectItems(ctx context.Context, opts *client.ListOptions, readers []*CacheReader) (*selected, error) {
	if opts.Continue == continueNotSupported {
		return nil, errContinue
	}
	s := newSelected(readers)
	if opts.Continue != "" {
		var err error
		if s.at, err = decodeToken(opts.Continue, len(readers)); err != nil {
			return nil, err
		}
	}
	return s, s.gather(ctx, opts, readers, false)
}

// gather finds what matches opts behind the token. If look is set, it leaves no trace.
func (s *selected) gather(ctx context.Context, opts *client.ListOptions, readers []*CacheReader, look bool) error {
	from := ""
	if s.at.After != "" {
		from = watchcache.After(s.at.After)
	}
	for i, r := range readers {
		answer, err := r.search(ctx, opts, store.Page{Limit: opts.Limit, State: s.at.States[i], From: from, Look: look})
		if err != nil {
			if apierrors.IsResourceExpired(err) {
				s.lose(readers)
			}
			return err
		}
		if s.all = answer.All; s.all != nil && s.only == nil {
			answer.Items, s.all = slices.Collect(s.all.Items("", "")), nil
		}
		s.items = slices.Grow(s.items, len(answer.Items))
		for n := range answer.Items {
			s.items = append(s.items, listed{&answer.Items[n], r})
		}
		if i == 0 || older(answer.Revision, s.version) {
			s.version = answer.Revision
		}
		s.rest += answer.Rest
		s.states[i] = answer.State
		s.plan = max(s.plan, answer.Way.Plan)
	}
	if len(readers) > 1 {
		slices.SortFunc(s.items, func(a, b listed) int { return strings.Compare(a.Key, b.Key) })
	}
	s.rest += cut(&s.items, opts.Limit)
	return nil
}

// len returns the number of objects.
func (s *selected) len() int {
	if s.all != nil {
		return s.all.Len()
	}
	return len(s.items)
}

// each walks the objects. An object is valid until the next one.
func (s *selected) each() iter.Seq2[int, listed] {
	return func(yield func(int, listed) bool) {
		if s.all == nil {
			slices.All(s.items)(yield)
			return
		}
		n, current := 0, store.Item{}
		for current = range s.all.Items("", "") {
			if !yield(n, listed{&current, s.only}) {
				return
			}
			n++
		}
	}
}

// next returns the token for the page after this one, and keeps what the readers have
// read if this is the first page.
func (s *selected) next() string {
	s.at.After = s.items[len(s.items)-1].Key
	for i := range s.states {
		if s.at.States[i] == 0 {
			s.at.States[i] = s.states[i].Keep()
		}
	}
	return s.at.encode()
}

// finish says that the list is complete.
func (s *selected) finish(readers []*CacheReader) {
	for i, r := range readers {
		if s.at.States[i] != 0 {
			r.store.Keeper().End(s.at.States[i])
		}
	}
}

// lose says that the list cannot go on: a state of it is not kept any more.
func (s *selected) lose(readers []*CacheReader) {
	for i, r := range readers {
		r.store.Keeper().Drop(s.at.States[i])
	}
}

// cut takes away what is over the limit and returns how much that was.
func cut(items *[]listed, limit int64) (rest int64) {
	if limit > 0 && int64(len(*items)) > limit {
		rest = int64(len(*items)) - limit
		*items = (*items)[:limit]
	}
	return rest
}

// older reports whether resource version a is before b. A version that cannot be compared, such as
// the empty one of a store that knows none, counts as the oldest.
func older(a, b string) bool {
	c, err := resourceversion.CompareResourceVersion(a, b)
	if err != nil {
		return a == ""
	}
	return c < 0
}

// search returns the objects that match opts.
func (r *CacheReader) search(ctx context.Context, opts *client.ListOptions, at store.Page) (store.Answer, error) {
	q, err := r.request(opts, at)
	if err != nil {
		return store.Answer{}, err
	}
	a, err := r.store.Find(ctx, q)
	if !at.Look {
		r.reads.Went(a.Way)
	}
	return a, r.explain(err)
}

// Request returns what opts ask of the store.
func (r *CacheReader) request(opts *client.ListOptions, at store.Page) (*store.Request, error) {
	if r.ClusterScoped() && opts.Namespace != "" {
		return nil, fmt.Errorf("cannot list %s in namespace %q: the kind is cluster-scoped, list it without a namespace", r.gvk.Kind, opts.Namespace)
	}
	selection, err := postings.Resolve(opts.FieldSelector, r.fields)
	if err != nil {
		return nil, err
	}
	namespace := opts.Namespace
	if namespace == "" {
		namespace, _ = selection.Namespace() // to look at no others
	}
	q := &store.Request{Namespace: namespace, Labels: opts.LabelSelector, Fields: selection, Page: at}
	if name, ok := selection.Name(); ok && (namespace != "" || r.ClusterScoped()) {
		q.Key = object.Key(namespace, name)
	}
	q.Fresh, err = listFreshness(opts)
	return q, err
}
