// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unsafe"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/postings"
	"github.com/tarn-dev/tarn/pkg/index"
)

// IndexerStore is the store of an informer of client-go's kind.
type IndexerStore struct {
	indexer toolscache.Indexer
	fields  *index.Fields
	decoded *object.Form
	kept    *keptStates[*indexerState]
}

var _ Store = (*IndexerStore)(nil)

// NewIndexerStore returns the store for an Indexer with a namespace index
// (toolscache.NamespaceIndex) and the declared fields.
func NewIndexerStore(indexer toolscache.Indexer, fields *index.Fields) *IndexerStore {
	s := &IndexerStore{
		indexer: indexer, fields: fields, decoded: object.NewForm(object.Options{Decoded: true}),
	}
	s.kept = newKeptStates(s.look)
	return s
}

func (s *IndexerStore) form() *object.Form { return s.decoded }

func (s *IndexerStore) get(_ context.Context, key client.ObjectKey, at freshness) (object.Object, bool, error) {
	if err := s.reached(at); err != nil {
		return object.Object{}, false, err
	}
	raw, ok, err := s.indexer.GetByKey(object.StoreKey(object.Key(key.Namespace, key.Name)))
	if err != nil || !ok {
		return object.Object{}, false, err
	}
	obj, err := checked(raw)
	if err != nil {
		return object.Object{}, false, err
	}
	return s.decoded.Keep(obj), true, nil
}

// checked refuses what a transform may have put in the place of an object.
func checked(raw any) (client.Object, error) {
	obj, ok := raw.(client.Object)
	if !ok {
		return nil, fmt.Errorf("the cache holds a %T, which is no client.Object; check the transform of this kind", raw)
	}
	return obj, nil
}

func (s *IndexerStore) keeper() keeper { return s.kept }

// look compares states with the objects of now: an Indexer does not tell of writes. What
// several states hold is counted for each of them.
func (s *IndexerStore) look(states []*indexerState) (held []int, budget budget) {
	objects := s.indexer.List()
	every, bytes := 1+len(objects)/maxLooked, 0
	there := make(map[unsafe.Pointer]struct{}, len(objects))
	for i, obj := range objects {
		if i%every == 0 {
			bytes += every * object.MemoryOf(obj)
		}
		there[address(obj)] = struct{}{}
	}
	budget, held = budgetOf(bytes), make([]int, len(states))
	for i, state := range states {
		for _, it := range state.items {
			held[i] += int(unsafe.Sizeof(it)) + len(it.Key)
			obj, err := s.decoded.Materialize(it.Value)
			if _, ok := there[address(obj)]; err == nil && !ok {
				held[i] += it.Value.Bytes()
			}
			if held[i] > budget.idle+budget.reading {
				break // that is enough to know
			}
		}
	}
	return held, budget
}

// address tells objects apart; nil for what a transform has made that is no pointer.
func address(obj any) unsafe.Pointer {
	if v := reflect.ValueOf(obj); v.Kind() == reflect.Pointer {
		return v.UnsafePointer()
	}
	return nil
}

// indexerState is what a list with pages to come has read of an Indexer: all matches,
// sorted. There are no snapshots of an Indexer, but its objects do not change.
type indexerState struct {
	store    *IndexerStore
	revision string
	items    []item
	looked   int // at so many objects for them
}

func (read *indexerState) keep() uint64 { return read.store.kept.add(read, 0) }

func (s *IndexerStore) find(_ context.Context, q *request) (answer, error) {
	if err := s.reached(q.fresh); err != nil {
		return answer{}, err
	}
	state, err := s.state(q)
	if err != nil {
		return answer{}, err
	}
	a := answer{revision: state.revision, state: state, way: q.way("", state.looked)}
	for field := range q.fields.Equals() {
		a.way = q.way(postings.Name(field), state.looked)
		break
	}
	begin, _ := slices.BinarySearchFunc(state.items, q.page.from, func(it item, key string) int { return strings.Compare(it.Key, key) })
	for _, it := range state.items[begin:] {
		if q.page.state != 0 && !s.matches(it, q) {
			continue
		}
		if q.page.limit > 0 && int64(len(a.items)) == q.page.limit {
			a.rest++
			if !q.counted() {
				break
			}
			continue
		}
		a.items = append(a.items, it)
	}
	return a, nil
}

// state returns what matches q now, or what the page before was read from.
func (s *IndexerStore) state(q *request) (*indexerState, error) {
	if q.page.state != 0 {
		return s.kept.find(q.page.state)
	}
	// The version is read before the objects, so that it never promises what they
	// do not hold.
	state := &indexerState{store: s, revision: s.indexer.LastStoreSyncResourceVersion()}
	candidates, err := s.candidates(q)
	if err != nil {
		return nil, err
	}
	state.looked = len(candidates)
	for _, raw := range candidates {
		obj, err := checked(raw)
		if err != nil {
			return nil, err
		}
		it := item{Key: object.Key(obj.GetNamespace(), obj.GetName()), Value: s.decoded.Keep(obj)}
		if s.matches(it, q) {
			state.items = append(state.items, it)
		}
	}
	slices.SortFunc(state.items, func(a, b item) int { return strings.Compare(a.Key, b.Key) })
	return state, nil
}

func (s *IndexerStore) matches(it item, q *request) bool {
	obj, err := s.decoded.Materialize(it.Value)
	return err == nil && (q.namespace == "" || it.Value.Namespace() == q.namespace) &&
		(unrestricted(q.labels) || q.labels.Matches(it.Value.Labels())) &&
		q.fields.Matches(indexed{obj.(client.Object), s.fields})
}

// candidates returns a small set of objects that includes all matches.
func (s *IndexerStore) candidates(q *request) ([]any, error) {
	if q.fields.Nothing() {
		return nil, nil
	}
	if q.key != "" {
		raw, ok, err := s.indexer.GetByKey(object.StoreKey(q.key))
		if err != nil || !ok {
			return nil, err
		}
		return []any{raw}, nil
	}
	for field, value := range q.fields.Equals() {
		return s.indexer.ByIndex(postings.Name(field), postings.Key(q.namespace, value))
	}
	if q.namespace != "" {
		return s.indexer.ByIndex(toolscache.NamespaceIndex, q.namespace)
	}
	return s.indexer.List(), nil
}

// indexed is an object whose field values are extracted when asked for.
type indexed struct {
	client.Object
	fields *index.Fields
}

func (o indexed) HasFieldValue(field, value string) bool {
	return slices.Contains(o.fields.Values(o.Object, field), value)
}
