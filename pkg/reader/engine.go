// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/index"
	"github.com/tarn-dev/tarn/pkg/object"
	"github.com/tarn-dev/tarn/pkg/watchcache"
)

// Engine is the store of our own informer. Lists are read from snapshots.
type Engine struct {
	engine  *watchcache.Engine[object.Object]
	objects *object.Form
	labels  *watchcache.OnDemand[object.Object]
	pages   *pages
}

var _ Store = (*Engine)(nil)

// NewEngine returns the store for an engine whose index values are those of
// [ValuesOf].
func NewEngine(engine *watchcache.Engine[object.Object], form *object.Form) *Engine {
	return newEngine(engine, form, clock.RealClock{})
}

func newEngine(engine *watchcache.Engine[object.Object], form *object.Form, clock clock.PassiveClock) *Engine {
	return &Engine{engine: engine, objects: form, labels: watchcache.NewOnDemand(engine, clock), pages: newPages()}
}

// ValuesOf returns what an engine needs to index objects of form: the values of
// labels under index.LabelName, and those of declared fields under index.Name.
func ValuesOf(form *object.Form) func(object.Object, string, func(string)) {
	return func(o object.Object, name string, yield func(string)) {
		if key, ok := strings.CutPrefix(name, index.LabelName("")); ok {
			if value, ok := o.Label(key); ok {
				yield(value)
			}
			return
		}
		form.Values(o, name, yield)
	}
}

func (s *Engine) form() *object.Form { return s.objects }

func (s *Engine) get(key client.ObjectKey) (object.Object, bool, error) {
	item, ok := s.engine.Get(Key(key.Namespace, key.Name))
	return item.Value, ok, nil
}

// Len returns the number of objects.
func (s *Engine) Len() int { return s.engine.Len() }

func (s *Engine) states() *pages { return s.pages }

func (s *Engine) find(q query) (found, error) {
	snapshot, err := s.snapshot(q)
	if err != nil {
		return found{}, err
	}
	answer := found{revision: version(snapshot.Revision()), state: snapshot}
	if q.counted() {
		answer.take(snapshot, &q)
		return answer, nil
	}
	accept := func(it watchcache.Item[object.Object]) bool {
		return !s.matches(it, q) || answer.add(item{key: it.Key, obj: it.Value}, &q)
	}
	s.walk(snapshot, q, accept)
	return answer, nil
}

// take adds a page of everything in a namespace, or in all. What follows is counted
// without a look at it.
func (f *found) take(snapshot *watchcache.Snapshot[object.Object], q *query) {
	prefix := Prefix(q.namespace)
	count := snapshot.Count(prefix, q.page.after)
	size := count
	if q.page.limit > 0 {
		size = int(min(int64(count), q.page.limit))
	}
	f.items = make([]item, 0, size)
	for it := range snapshot.Items(prefix, q.page.after) {
		if len(f.items) == size {
			break
		}
		f.items = append(f.items, item{key: it.Key, obj: it.Value})
	}
	f.rest = int64(count - size)
}

// walk passes all objects that can match, and may pass others, to accept, in the order
// of their keys, until it returns false.
func (s *Engine) walk(snapshot *watchcache.Snapshot[object.Object], q query, accept func(watchcache.Item[object.Object]) bool) {
	if q.fields.Nothing() {
		return
	}
	if q.key != "" {
		if it, ok := snapshot.Get(q.key); ok && it.Key > q.page.after {
			accept(it)
		}
		return
	}
	prefix := Prefix(q.namespace)
	plan, ok := index.NewPlan(q.labels, q.fields, snapshot.Index, prefix, snapshot.Len()/2+1)
	if !ok {
		for it := range snapshot.Items(prefix, q.page.after) {
			if !accept(it) {
				return
			}
		}
		return
	}
	for key := range plan.KeysAfter(q.page.after) {
		if it, ok := snapshot.Get(key); ok && !accept(it) {
			return
		}
	}
}

func version(revision uint64) string {
	if revision == 0 {
		return ""
	}
	return strconv.FormatUint(revision, 10)
}

// snapshot returns the state to read: the one that the page is of, or that of now,
// with the label indexes that the selector can use.
func (s *Engine) snapshot(q query) (*watchcache.Snapshot[object.Object], error) {
	if q.page.state != 0 {
		state, err := s.pages.find(q.page.state)
		if err != nil {
			return nil, err
		}
		return state.(*watchcache.Snapshot[object.Object]), nil
	}
	s.askForIndexes(q)
	return s.engine.Snapshot(), nil
}

func (s *Engine) matches(it watchcache.Item[object.Object], q query) bool {
	return (q.labels == nil || q.labels.Matches(labels.Labels(it.Value.Labels()))) &&
		q.fields.Matches(kept{it, s.objects})
}

// kept is an object of the engine as field selectors see it.
type kept struct {
	item watchcache.Item[object.Object]
	form *object.Form
}

func (k kept) GetName() string      { _, name := splitKey(k.item.Key); return name }
func (k kept) GetNamespace() string { namespace, _ := splitKey(k.item.Key); return namespace }

func (k kept) HasFieldValue(field, value string) (has bool) {
	k.form.Values(k.item.Value, index.Name(field), func(v string) { has = has || v == value })
	return has
}
