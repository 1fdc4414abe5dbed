// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"strconv"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/query"
	"github.com/tarn-dev/tarn/internal/watchcache"
	"github.com/tarn-dev/tarn/pkg/index"
)

// Source is the engine that an [Engine] reads: a watchcache.Engine, whatever is attached to
// its events.
type Source interface {
	index.Keeper
	Get(key string) (watchcache.Item[object.Object], bool)
	Len() int
	Snapshot() *watchcache.Snapshot[object.Object]
	Observe(watchcache.Observer[object.Object])
}

// Engine is the store of our own informer. Lists are read from snapshots.
type Engine struct {
	engine  Source
	objects *object.Form
	planner *query.Planner[object.Object]
	pages   *pages
	size    size
}

var _ Store = (*Engine)(nil)

// NewEngine returns the store for an engine whose index values are those of
// informer.Values. The store is the observer of the engine, which can have but one.
func NewEngine(engine Source, form *object.Form) *Engine {
	return newEngine(engine, form, clock.RealClock{})
}

func newEngine(engine Source, form *object.Form, clock clock.PassiveClock) *Engine {
	planner := query.NewPlanner(engine, index.NewOnDemand(engine, clock), query.PlannerOptions{})
	s := &Engine{engine: engine, objects: form, planner: planner, pages: newPages()}
	engine.Observe(watchcache.Observer[object.Object]{Written: s.pages.wrote, Replaced: s.pages.replaced, Rewritten: s.pages.clear})
	return s
}

func (s *Engine) form() *object.Form { return s.objects }

func (s *Engine) get(key client.ObjectKey) (object.Object, bool, error) {
	item, ok := s.engine.Get(object.Key(key.Namespace, key.Name))
	return item.Value, ok, nil
}

// Len returns the number of objects.
func (s *Engine) Len() int { return s.engine.Len() }

func (s *Engine) states() *pages { return s.pages }

func (s *Engine) keep(state any) uint64 {
	snapshot := state.(*watchcache.Snapshot[object.Object])
	objects, indexes := snapshot.Trees()
	made := pin{
		position: snapshot.Position(), revision: snapshot.Revision(),
		objects: tree{bytes: objects, items: snapshot.Len()}, indexes: tree{bytes: indexes, items: snapshot.Len()},
	}
	s.pages.allow(s.size.budget(snapshot))
	return s.pages.add(snapshot, made)
}

func (s *Engine) find(r *request) (found, error) {
	q := s.query(r)
	snapshot, err := s.snapshot(r, q)
	if err != nil {
		return found{}, err
	}
	answer, err := query.Find(snapshot, q)
	rest := int64(answer.Rest)
	if answer.More {
		rest = max(rest, 1)
	}
	return found{items: answer.Items, rest: rest, revision: version(snapshot.Revision()), state: snapshot}, err
}

// query returns what a request asks of a state.
func (s *Engine) query(r *request) *query.Query[object.Object] {
	q := &query.Query[object.Object]{
		Prefix: object.KeyPrefix(r.namespace), Key: r.key, From: r.page.from, Limit: int(r.page.limit),
		Labels: r.labels, Fields: r.fields,
	}
	byLabel, byField := !unrestricted(r.labels), !r.fields.Everything()
	if byLabel || byField {
		q.Selects = func(it item) bool {
			return (!byLabel || r.labels.Matches(labels.Labels(it.Value.Labels()))) &&
				(!byField || r.fields.Matches(kept{it, s.objects}))
		}
	}
	return q
}

func version(revision uint64) string {
	if revision == 0 {
		return ""
	}
	return strconv.FormatUint(revision, 10)
}

// snapshot returns the state to read: the one that the page is of, or that of now, with
// the indexes that the query can use.
func (s *Engine) snapshot(r *request, q *query.Query[object.Object]) (*watchcache.Snapshot[object.Object], error) {
	if r.page.state != 0 {
		state, err := s.pages.find(r.page.state)
		if err != nil {
			return nil, err
		}
		return state.(*watchcache.Snapshot[object.Object]), nil
	}
	s.planner.Prepare(q)
	return s.engine.Snapshot(), nil
}

// LabelIndexes returns what the indexes of labels take now.
func (s *Engine) LabelIndexes() query.OnDemandIndexes { return s.planner.Indexes() }

// kept is an object of the engine as field selectors see it.
type kept struct {
	item item
	form *object.Form
}

func (k kept) GetName() string      { _, name := object.SplitKey(k.item.Key); return name }
func (k kept) GetNamespace() string { namespace, _ := object.SplitKey(k.item.Key); return namespace }

func (k kept) HasFieldValue(field, value string) (has bool) {
	k.form.Values(k.item.Value, index.Name(field), func(v string) { has = has || v == value })
	return has
}
