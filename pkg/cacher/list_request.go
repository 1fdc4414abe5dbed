// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher/delegator"

	"github.com/tarn-dev/tarn/internal/query"
	"github.com/tarn-dev/tarn/pkg/cacher/internal/element"
)

// listRequest is a list with all that its options say, parsed once.
type listRequest struct {
	key    string // as it was asked for
	opts   storage.ListOptions
	below  string // the key of the one object, or what begins the keys of all
	filter *element.Filter

	// revision is the revision of the state to read, or the lowest revision that is new enough. It is zero if
	// any state will do, and until a consistent list has asked the storage.
	revision   uint64
	exact      bool   // the state must be that of revision
	consistent bool   // the state must be no older than the request
	from       string // the first key of a page behind the first
}

// parseList parses the options of a list. The rules and the errors are those of
// storage.ValidateListOptions; a list with an invalid key is refused too.
func (c *Cacher) parseList(key string, opts storage.ListOptions) (*listRequest, error) {
	below, err := storage.PrepareKey(c.config.ResourcePrefix, key, opts.Recursive)
	if err != nil {
		return nil, err
	}
	parsing := parsingVersioner{Versioner: c.config.Versioner}
	exactly, from, err := storage.ValidateListOptions(below, &parsing, opts)
	if err != nil {
		return nil, err
	}
	r := &listRequest{
		key: key, opts: opts, below: below, from: from,
		filter:   element.NewFilter(below, opts.Predicate, c.form, c.features.shards),
		revision: parsing.revision,
	}
	switch {
	case exactly > 0:
		r.revision, r.exact = uint64(exactly), true
	case from != "": // a page of whatever is there now
		r.revision, r.consistent = 0, true
	default:
		r.consistent = opts.ResourceVersion == "" && opts.ResourceVersionMatch == ""
	}
	return r, nil
}

// parsingVersioner notes the resource version that it parses.
type parsingVersioner struct {
	storage.Versioner
	revision uint64
}

// ParseResourceVersion implements storage.Versioner.
func (v *parsingVersioner) ParseResourceVersion(resourceVersion string) (revision uint64, err error) {
	v.revision, err = v.Versioner.ParseResourceVersion(resourceVersion)
	return v.revision, err
}

// limited reports that the storage answers the list while the cache is not ready: it has a
// limit, and nothing has to be filtered.
func (r *listRequest) limited() bool { return r.opts.Predicate.Limit > 0 && !r.filter.Selects() }

// limit returns how many objects the list may have; zero is no limit. A list that takes
// whatever the cache has gets all of it, as with upstream.
func (r *listRequest) limit() int {
	if r.opts.Predicate.Limit <= 0 || r.opts.ResourceVersion == "0" {
		return 0
	}
	return int(r.opts.Predicate.Limit)
}

// query returns what the list asks of a state.
func (r *listRequest) query(x *indexes) *query.Query[*element.Element] {
	q := x.query(r.filter)
	q.From, q.Limit, q.MayBeMore = r.from, r.limit(), true
	if !r.opts.Recursive {
		q.Key = r.below
	}
	return q
}

// delegation says which lists the cache cannot answer and the storage does. The rules are
// upstream's: it is the Helper of delegator.ShouldDelegateList for one request.
type delegation struct {
	*listRequest
	snapshots bool
	// holds reports whether the cache can give the state of a revision, now or when it has come
	// to it.
	holds func(revision uint64) bool
}

var _ delegator.Helper = delegation{}

// ShouldDelegateExactRV implements delegator.Helper.
func (d delegation) ShouldDelegateExactRV(string, bool) (delegator.Result, error) {
	return delegator.Result{ShouldDelegate: !d.opts.Recursive || !d.snapshots || !d.holds(d.revision)}, nil
}

// ShouldDelegateContinue implements delegator.Helper.
func (d delegation) ShouldDelegateContinue(string, bool) (delegator.Result, error) {
	switch {
	case !d.opts.Recursive || !d.snapshots:
		return delegator.Result{ShouldDelegate: true}, nil
	case d.exact:
		return delegator.Result{ShouldDelegate: !d.holds(d.revision)}, nil
	}
	return d.ShouldDelegateConsistentRead()
}

// ShouldDelegateConsistentRead implements delegator.Helper.
func (d delegation) ShouldDelegateConsistentRead() (delegator.Result, error) {
	return delegator.Result{ConsistentRead: true, ShouldDelegate: !delegator.ConsistentReadSupported()}, nil
}
