// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package pending_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/tarn-dev/tarn/internal/note"
	"github.com/tarn-dev/tarn/internal/pending"
	"github.com/tarn-dev/tarn/internal/query"
)

// randomReader reads, and knows what it has seen.
type randomReader struct {
	*world
	least map[string]uint64 // as that of the world
	shown revisions
}

func (w *world) reader() *randomReader {
	return &randomReader{world: w, least: map[string]uint64{}, shown: revisions{}}
}

func (r *randomReader) read(random *rand.Rand) {
	like := r.like(random)
	switch random.IntN(4) {
	case 0:
		r.list("", "")
	case 1:
		r.list(like.key[:2], "")
	case 2:
		r.list(like.key[:2], like.thing.label)
	default:
		r.get(like.key)
	}
}

// begin returns the revisions as of which a read is at least that begins now.
func (r *randomReader) begin() map[string]uint64 {
	r.known.Lock()
	defer r.known.Unlock()
	least := maps.Clone(r.least)
	for key, revision := range r.world.least {
		least[key] = max(least[key], revision)
	}
	return least
}

// failed reports whether a read has failed, as it may.
func (r *randomReader) failed(err error) bool {
	unanswered := (*pending.UnansweredError)(nil)
	switch {
	case err == nil:
		return false
	case errors.As(err, &unanswered) && r.refused > 0:
	default:
		r.t.Errorf("a read has failed: %v", err)
	}
	return true
}

func (r *randomReader) get(key string) {
	least := r.begin()
	view, err := r.writes.Read(context.Background(), pending.Target{Key: key})
	if r.failed(err) {
		return
	}
	found, there, lost := view.Find(key)
	switch {
	case lost != nil:
		r.sees(key, least[key], "lost", func(v version) bool { return v.poison })
	case there:
		r.finds(found, least[key])
	default:
		r.sees(key, least[key], "none", func(v version) bool { return r.missing(v, "") })
	}
}

// list lists what has a prefix and a label, or any label if that is empty.
func (r *randomReader) list(prefix, label string) {
	least := r.begin()
	all := pending.Target{Key: prefix, All: true}
	view, err := r.writes.Read(context.Background(), all)
	if r.failed(err) {
		return
	}
	q := &query.Query[thing]{Prefix: prefix}
	if changes := view.Changes(all); changes {
		q.Own = &view
	}
	if label != "" {
		q.Selects = func(i item) bool { return i.Value.label == label }
	}
	found, err := query.Find(view.Base(), q)
	if err != nil {
		r.mayFail(prefix, least, err)
		return
	}
	if q.Own != nil && label == "" && view.Count(prefix, "") != len(found.Items) {
		r.t.Errorf("counted %d of %d", view.Count(prefix, ""), len(found.Items))
	}
	listed := map[string]bool{}
	for _, i := range found.Items {
		listed[i.Key] = true
		if r.finds(i, least[i.Key]); label != "" && i.Value.label != label {
			r.t.Errorf("%s has not the label %s", i.Key, label)
		}
	}
	r.history.mu.Lock()
	keys := maps.Clone(r.versions)
	r.history.mu.Unlock()
	for key := range keys {
		if strings.HasPrefix(key, prefix) && !listed[key] {
			r.sees(key, least[key], "none with the label "+cmp.Or(label, "any"), func(v version) bool { return r.missing(v, label) })
		}
	}
}

// mayFail sees that there is an object which the cache cannot hold.
func (r *randomReader) mayFail(prefix string, least map[string]uint64, err error) {
	r.history.mu.Lock()
	defer r.history.mu.Unlock()
	for key := range r.versions {
		if strings.HasPrefix(key, prefix) && r.first(key, least[key], func(v version) bool { return v.poison }) != nil {
			return
		}
	}
	r.t.Errorf("a list of %s has failed: %v", prefix, err)
}

// finds sees that an object was there.
func (r *randomReader) finds(i item, least uint64) {
	r.sees(i.Key, least, fmt.Sprintf("%+v at %d", i.Value, i.Revision), func(v version) bool {
		return v.there && !v.poison && v.revision == i.Revision && v.thing == i.Value
	})
	p := r.writes.All(pending.Target{Key: i.Key}, 1)
	ok := len(p) > 0
	kept := ok && p[0].Outcome == note.Shown && p[0].Revision == i.Revision
	if now, there := r.engine.Snapshot().Get(i.Key); (ok && !kept || r.budget < 0) && (!there || now.Revision != i.Revision) {
		return // an answer is not kept that is not the newest one, or for which there is no room
	}
	r.shown.add(i.Key, i.Revision)
}

// missing reports whether a list with a label may lack an object because of a version of it. It may if the cache cannot
// hold that version, and it is not known that one of before was in such a list.
func (r *randomReader) missing(v version, label string) bool {
	if !v.there || label != "" && !v.poison && v.thing.label != label {
		return true
	}
	if !v.poison {
		return false
	}
	before, lost := version{}, false
	since := uint64(0) // when before was over
	for _, other := range r.versions[v.key] {
		if other.revision > v.revision {
			break
		}
		if !other.poison {
			before = other
		} else if !lost {
			since = other.revision
		}
		lost = other.poison
	}
	known := r.shown[v.key][before.revision]
	return !before.there || label != "" && before.thing.label != label || !known || r.watch.relisted >= since
}

// first returns the oldest version of a key for which is holds and that was there at a revision or later.
func (r *randomReader) first(key string, least uint64, is func(version) bool) *version {
	all := append([]version{{key: key}}, r.versions[key]...)
	for n, v := range all {
		if (n+1 == len(all) || all[n+1].revision > least) && is(v) {
			return &v
		}
	}
	return nil
}

// sees sees that a version for which is holds was there at a revision or later, and that later reads show no older one.
func (r *randomReader) sees(key string, least uint64, what string, is func(version) bool) {
	r.history.mu.Lock()
	defer r.history.mu.Unlock()
	v := r.first(key, least, is)
	if v == nil {
		r.t.Errorf("%v: %s: a read as of %d or later shows %s\nthe server has had %v\nthe watch is at %d",
			time.Now(), key, least, what, r.versions[key], r.engine.Snapshot().Revision())
		return
	}
	r.least[key] = max(r.least[key], v.revision)
}
