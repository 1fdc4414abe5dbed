// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"strconv"
	"sync/atomic"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/pending"
	"github.com/tarn-dev/tarn/internal/postings"
	"github.com/tarn-dev/tarn/internal/query"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

// ObjectEngine is what an [Engine] of this package reads: a watchcache.Engine, with whatever its writer
// attaches to events.
type ObjectEngine interface {
	postings.Keeper
	Get(key string) (watchcache.Item[object.Object], bool)
	Len() int
	Snapshot() *watchcache.Snapshot[object.Object]
	WaitUntilFresh(ctx context.Context, revision uint64) error
	WaitUntilFreshAfter(ctx context.Context, revision uint64, restored int) error
	Observe(watchcache.Observer[object.Object])
}

// Engine is the store of our own informer. Lists are read from snapshots.
type Engine struct {
	common
	engine  ObjectEngine
	form    *object.Form
	planner *query.Planner[object.Object]
	kept    *keptStates[engineView]
	size    *size
	own     atomic.Pointer[pending.Writes[object.Object]] // nil before somebody notes writes
}

var _ Store = (*Engine)(nil)

// NewEngine returns the store for an engine whose index values are those of
// informer.Values. The store is the observer of the engine, which can have but one.
func NewEngine(engine ObjectEngine, form *object.Form, clock clock.PassiveClock) *Engine {
	planner := query.NewPlanner(engine, postings.NewOnDemand(engine, clock), query.PlannerOptions{})
	s := &Engine{engine: engine, form: form, planner: planner, size: &size{}}
	s.kept = newKeptStates(func(views []engineView) ([]int, budget) { return s.size.held(engine.Snapshot(), views) })
	engine.Observe(watchcache.Observer[object.Object]{Written: s.wrote, Rewritten: s.kept.rewritten})
	return s
}

// Share sets how the store keeps the decoded objects that reads without copies share. It is called
// before the first read. By default the store has a budget of its own and reports nothing.
func (s *Engine) Share(sharing object.Sharing) { s.form.Share(sharing) }

// OwnWrites says how a store shows what the program has written.
type OwnWrites struct {
	// Ask asks the server for the objects of a target, and for its revision alone if the target is zero.
	Ask func(ctx context.Context, of pending.Target) (pending.Answer[object.Object], error)
	// Budget bounds the memory.
	Budget *pending.Budget
	// Ended is called for a write that the watch has not shown in time, or for which there is no room.
	Ended func(pending.Ending)
}

// ShowOwnWrites returns where writes of the program are noted. Reads that begin later show them. It is called once.
func (s *Engine) ShowOwnWrites(o OwnWrites) *pending.Writes[object.Object] {
	own := pending.New(pending.Options[object.Object]{
		State: s.engine.Snapshot, Wait: s.engine.WaitUntilFreshAfter, Ask: o.Ask,
		UID: object.Object.UID, Size: object.Object.Bytes, Budget: o.Budget, Ended: o.Ended,
	})
	s.own.Store(own)
	return own
}

// OwnWrites returns how many pending writes there are, and how many bytes these take.
func (s *Engine) OwnWrites() (writes, bytes int) { return s.own.Load().Size() }

// Shared returns how many decoded objects the store keeps for reads without copies.
func (s *Engine) Shared() object.SharedSize { return s.form.SharedSize() }

// wrote notes that an object was written or deleted, which is zero if it is new.
func (s *Engine) wrote(was Item) { s.form.Forget(was.Value) }

// Objects implements Store.
func (s *Engine) Objects() Objects { return s.form }

func (s *Engine) Get(ctx context.Context, key client.ObjectKey, at Freshness) (object.Object, bool, error) {
	k := object.Key(key.Namespace, key.Name)
	if !at.Watched && s.own.Load().Pending(k) || at.Revision > 0 {
		return s.getOver(ctx, k, at)
	}
	item, ok := s.engine.Get(k)
	return item.Value, ok, nil
}

// Keeper implements Store.
func (s *Engine) Keeper() keeper { return s.kept }

// As implements Store.
func (s *Engine) As(view *object.View) Store {
	if view == nil {
		return s
	}
	return viewed{s, view}
}

// viewed is a store that shows its objects in another Go type.
type viewed struct {
	*Engine
	view *object.View
}

// Objects implements Store.
func (v viewed) Objects() Objects { return v.view }

// engineView is what a list reads: a state, and the pending writes over it, nil for none.
type engineView struct {
	snapshot *watchcache.Snapshot[object.Object]
	own      *pending.View[object.Object]
}

// base returns the state to look at: the state of the watch, or a newer list of the server.
func (v engineView) base() *watchcache.Snapshot[object.Object] {
	if v.own != nil {
		return v.own.Base()
	}
	return v.snapshot
}

// engineState is a view that a list has read.
type engineState struct {
	engineView
	store    *Engine
	rewrites uint64 // of the store, before the snapshot was taken
}

func (read engineState) Keep() uint64 { return read.store.kept.add(read.engineView, read.rewrites) }

// Find implements Store.
func (s *Engine) Find(ctx context.Context, r *Request) (Answer, error) {
	q := s.query(r)
	rewrites := s.kept.rewrites.Load() // before the snapshot: a Rewrite between the two makes the pages end early
	view, err := s.view(ctx, r, q)
	if err != nil {
		return Answer{}, err
	}
	snapshot := view.base()
	if r.everything() && view.own == nil {
		return Answer{All: snapshot, Revision: Version(snapshot.Revision()), Way: Way{Plan: ReadAll}}, nil
	}
	q.Own = view.own
	found, err := query.Find(snapshot, q)
	a := Answer{Items: found.Items, Rest: int64(found.Rest), Revision: Version(snapshot.Revision()), Way: r.way(found.Index, found.Looked)}
	if found.More {
		a.Rest = max(a.Rest, 1)
	}
	if r.Page.Limit > 0 { // otherwise no page follows
		a.State = engineState{view, s, rewrites}
	}
	return a, err
}

// engineQuery is a query, and what it compares objects with. These parts are used for all objects
// of the query, because selectors take them as interfaces, for which each would be allocated.
type engineQuery struct {
	query.Query[object.Object]
	request *Request
	labels  object.Labels
	fields  engineObject
}

// query returns what a request asks of a state.
func (s *Engine) query(r *Request) *query.Query[object.Object] {
	q := &engineQuery{request: r, fields: engineObject{form: s.form, fields: r.Fields}, Query: query.Query[object.Object]{
		Prefix: object.KeyPrefix(r.Namespace), Key: r.Key, From: r.Page.From, Limit: int(r.Page.Limit),
		Labels: r.Labels, Fields: r.Fields,
	}}
	if !Unrestricted(r.Labels) || !r.Fields.Everything() {
		q.Selects = q.selects
	}
	return &q.Query
}

// selects reports whether the selectors of the request match an object.
func (q *engineQuery) selects(it Item) bool {
	if !Unrestricted(q.request.Labels) {
		if q.labels = it.Value.Labels(); !q.request.Labels.Matches(&q.labels) {
			return false
		}
	}
	if q.request.Fields.Everything() {
		return true
	}
	if q.fields.item = it; q.Own != nil { // it may have been noted before a field was declared
		q.fields.item.Value = q.fields.form.Retell(it.Value)
	}
	if unfit := q.request.Fields.Unfit(); unfit != "" && q.fields.form.HasValue(q.fields.item.Value, unfit, "") {
		return q.request.Fields.MayMatch(&q.fields)
	}
	return q.request.Fields.Matches(&q.fields)
}

func Version(revision uint64) string {
	if revision == 0 {
		return ""
	}
	return strconv.FormatUint(revision, 10)
}

// view returns the state to read: the state of the page before, or the state of now with the indexes
// that the query can use.
func (s *Engine) view(ctx context.Context, r *Request, q *query.Query[object.Object]) (engineView, error) {
	if r.Page.State != 0 {
		return s.kept.Find(r.Page.State)
	}
	if !r.Page.Look {
		s.planner.Prepare(q)
	}
	if err := s.reach(ctx, r.Fresh); err != nil {
		return engineView{}, err
	}
	if r.Fresh.Watched || s.own.Load().Empty() {
		return engineView{snapshot: s.engine.Snapshot()}, nil
	}
	of := pending.Target{Key: q.Prefix, All: true}
	if q.Key != "" {
		of = pending.Target{Key: q.Key}
	}
	own, err := s.own.Load().Read(ctx, of)
	if err != nil || !own.Changes(of) {
		return engineView{snapshot: own.State()}, err
	}
	return engineView{own.State(), &own}, nil
}

// LabelIndexes returns what the indexes of labels take now.
func (s *Engine) LabelIndexes() query.OnDemandIndexes { return s.planner.Indexes() }

// engineObject is an object of the engine as field selectors see it.
type engineObject struct {
	item   Item
	form   *object.Form
	fields postings.Selection // by which the query selects
}

func (k *engineObject) GetName() string { _, name := object.SplitKey(k.item.Key); return name }

func (k *engineObject) GetNamespace() string {
	namespace, _ := object.SplitKey(k.item.Key)
	return namespace
}

func (k *engineObject) HasFieldValue(field, value string) bool {
	return k.form.HasValue(k.item.Value, k.fields.IndexOf(field), value)
}
