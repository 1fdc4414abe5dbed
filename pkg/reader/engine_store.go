// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"context"
	"strconv"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/pending"
	"github.com/tarn-dev/tarn/internal/postings"
	"github.com/tarn-dev/tarn/internal/query"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

// Source is the engine that an [EngineStore] reads: a watchcache.Engine, with whatever its writer
// attaches to events.
type Source interface {
	postings.Keeper
	Get(key string) (watchcache.Item[object.Object], bool)
	Len() int
	Snapshot() *watchcache.Snapshot[object.Object]
	WaitUntilFresh(ctx context.Context, revision uint64) error
	WaitUntilFreshAfter(ctx context.Context, revision uint64, restored int) error
	Observe(watchcache.Observer[object.Object])
}

// The objects that reads without copies share, see [EngineStore.Share].
type (
	// Sharing says how a store keeps the decoded objects that reads without copies share.
	Sharing = object.Sharing
	// Budget is the number of bytes that the stores of one cache have together for these objects.
	Budget = object.Budget
	// SharedSize says how many of these objects there are, and how much memory they take.
	SharedSize = object.SharedSize
)

// NewBudget returns a budget of so many bytes. Zero stands for the default: 2 GiB, or half of the
// memory limit of the Go runtime if that is less. With a negative number nothing is kept.
func NewBudget(bytes int64) *Budget { return object.NewBudget(bytes) }

// EngineStore is the store of our own informer. Lists are read from snapshots.
type EngineStore struct {
	engine  Source
	objects *object.Form
	planner *query.Planner[object.Object]
	kept    *keptStates[engineView]
	size    size
	own     *pending.Writes[object.Object] // nil if nobody notes writes
}

var _ Store = (*EngineStore)(nil)

// NewEngineStore returns the store for an engine whose index values are those of
// informer.Values. The store is the observer of the engine, which can have but one.
func NewEngineStore(engine Source, form *object.Form) *EngineStore {
	return newEngineStore(engine, form, clock.RealClock{})
}

func newEngineStore(engine Source, form *object.Form, clock clock.PassiveClock) *EngineStore {
	planner := query.NewPlanner(engine, postings.NewOnDemand(engine, clock), query.PlannerOptions{})
	s := &EngineStore{engine: engine, objects: form, planner: planner}
	s.kept = newKeptStates(s.look)
	engine.Observe(watchcache.Observer[object.Object]{Written: s.wrote, Rewritten: s.kept.rewritten})
	return s
}

// Share sets how the store keeps the decoded objects that reads without copies share. It is called
// before the first read. By default the store has a budget of its own and reports nothing.
func (s *EngineStore) Share(sharing Sharing) { s.objects.Share(sharing) }

// OwnWrites says how a store shows what the program has written.
type OwnWrites struct {
	// Ask asks the server for the objects of a target, and Revision for its revision alone.
	Ask      func(ctx context.Context, of pending.Target) (pending.Answer[object.Object], error)
	Revision func(ctx context.Context) (uint64, error)
	// Budget bounds the memory.
	Budget *pending.Budget
	// Ended is called for a write that the watch has not shown in time, or for which there is no room.
	Ended func(pending.Ending)
}

// ShowOwnWrites returns what the writes of the program are noted in. Reads show them from then on.
// It is called before the first read.
func (s *EngineStore) ShowOwnWrites(o OwnWrites) *pending.Writes[object.Object] {
	s.own = pending.New(pending.Options[object.Object]{
		State: s.engine.Snapshot, Wait: s.engine.WaitUntilFreshAfter, Ask: o.Ask, Revision: o.Revision,
		UID: object.Object.UID, Size: object.Object.Bytes, Budget: o.Budget, Ended: o.Ended,
	})
	return s.own
}

// OwnWrites returns how many writes the watch has not shown, and how many bytes these take.
func (s *EngineStore) OwnWrites() (writes, bytes int) { return s.own.Size() }

// Shared returns how many decoded objects the store keeps for reads without copies.
func (s *EngineStore) Shared() SharedSize { return s.objects.SharedSize() }

// wrote notes that an object was written or deleted, which is zero if it is new.
func (s *EngineStore) wrote(was item) { s.objects.Forget(was.Value) }

func (s *EngineStore) form() *object.Form { return s.objects }

func (s *EngineStore) get(ctx context.Context, key client.ObjectKey, at freshness) (object.Object, bool, error) {
	k := object.Key(key.Namespace, key.Name)
	if !at.watched && s.own.Pending(k) || at.revision > 0 {
		return s.getOver(ctx, k, at)
	}
	item, ok := s.engine.Get(k)
	return item.Value, ok, nil
}

// Len returns the number of objects.
func (s *EngineStore) Len() int { return s.engine.Len() }

func (s *EngineStore) keeper() keeper { return s.kept }

// engineView is what a list reads: a state, and what lies over it, nil for nothing.
type engineView struct {
	snapshot *watchcache.Snapshot[object.Object]
	own      *pending.View[object.Object]
}

// base returns the state to look at: that of the watch, or a newer list of the server.
func (v engineView) base() *watchcache.Snapshot[object.Object] {
	if v.own != nil {
		return v.own.Base()
	}
	return v.snapshot
}

// engineState is a view that a list has read.
type engineState struct {
	engineView
	store    *EngineStore
	rewrites uint64 // of the store, before the snapshot was taken
}

func (read engineState) keep() uint64 { return read.store.kept.add(read.engineView, read.rewrites) }

func (s *EngineStore) find(ctx context.Context, r *request) (answer, error) {
	q := s.query(r)
	rewrites := s.kept.rewrites.Load() // before the snapshot: a Rewrite between the two makes the pages end early
	view, err := s.view(ctx, r, q)
	if err != nil {
		return answer{}, err
	}
	snapshot := view.base()
	if r.everything() && view.own == nil {
		return answer{all: snapshot, revision: version(snapshot.Revision()), way: way{plan: ReadAll}}, nil
	}
	q.Own = view.own
	found, err := query.Find(snapshot, q)
	a := answer{items: found.Items, rest: int64(found.Rest), revision: version(snapshot.Revision()), way: r.way(found.Index, found.Looked)}
	if found.More {
		a.rest = max(a.rest, 1)
	}
	if r.page.limit > 0 { // otherwise no page follows
		a.state = engineState{view, s, rewrites}
	}
	return a, err
}

// engineQuery is a query, and what it compares objects with. These parts are used for all objects
// of the query, because selectors take them as interfaces, for which each would be allocated.
type engineQuery struct {
	query.Query[object.Object]
	request *request
	labels  object.Labels
	fields  engineObject
}

// query returns what a request asks of a state.
func (s *EngineStore) query(r *request) *query.Query[object.Object] {
	q := &engineQuery{request: r, fields: engineObject{form: s.objects, fields: r.fields}, Query: query.Query[object.Object]{
		Prefix: object.KeyPrefix(r.namespace), Key: r.key, From: r.page.from, Limit: int(r.page.limit),
		Labels: r.labels, Fields: r.fields,
	}}
	if !unrestricted(r.labels) || !r.fields.Everything() {
		q.Selects = q.selects
	}
	return &q.Query
}

// selects reports whether the selectors of the request match an object.
func (q *engineQuery) selects(it item) bool {
	if !unrestricted(q.request.labels) {
		if q.labels = it.Value.Labels(); !q.request.labels.Matches(&q.labels) {
			return false
		}
	}
	if q.request.fields.Everything() {
		return true
	}
	if q.fields.item = it; q.Own != nil { // it may have been noted before a field was declared
		q.fields.item.Value = q.fields.form.Retell(it.Value)
	}
	if unfit := q.request.fields.Unfit(); unfit != "" && q.fields.form.HasValue(q.fields.item.Value, unfit, "") {
		return q.request.fields.MayMatch(&q.fields)
	}
	return q.request.fields.Matches(&q.fields)
}

func version(revision uint64) string {
	if revision == 0 {
		return ""
	}
	return strconv.FormatUint(revision, 10)
}

// view returns what to read: what the page is of, or the state of now with the indexes that the
// query can use.
func (s *EngineStore) view(ctx context.Context, r *request, q *query.Query[object.Object]) (engineView, error) {
	if r.page.state != 0 {
		return s.kept.find(r.page.state)
	}
	if !r.page.look {
		s.planner.Prepare(q)
	}
	if err := s.reach(ctx, r.fresh); err != nil {
		return engineView{}, err
	}
	if r.fresh.watched || s.own.Empty() {
		return engineView{snapshot: s.engine.Snapshot()}, nil
	}
	of := pending.Target{Key: q.Prefix, All: true}
	if q.Key != "" {
		of = pending.Target{Key: q.Key}
	}
	own, err := s.own.Read(ctx, of)
	if err != nil || !own.Changes(of) {
		return engineView{snapshot: own.State()}, err
	}
	return engineView{own.State(), &own}, nil
}

// LabelIndexes returns what the indexes of labels take now.
func (s *EngineStore) LabelIndexes() query.OnDemandIndexes { return s.planner.Indexes() }

// engineObject is an object of the engine as field selectors see it.
type engineObject struct {
	item   item
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
