// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package store

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
)

// Indexer is the store of an informer of client-go's kind.
type Indexer struct {
	common
	indexer toolscache.Indexer
	fields  Fields
	decoded *object.Form
	kept    *keptStates[*indexerState]
}

var _ Store = (*Indexer)(nil)

// Fields are the declared fields of an Indexer.
type Fields interface {
	// Values returns the values of a declared field.
	Values(obj client.Object, field string) []string
}

// NewIndexer returns the store for an Indexer with a namespace index
// (toolscache.NamespaceIndex) and the declared fields.
func NewIndexer(indexer toolscache.Indexer, fields Fields) *Indexer {
	s := &Indexer{
		indexer: indexer, fields: fields, decoded: object.NewForm(object.Options{Decoded: true}),
	}
	s.kept = newKeptStates(s.bytesHeld)
	return s
}

// As implements Store: an informer that the user made has one Go type.
func (s *Indexer) As(*object.View) Store { return s }

// Objects implements Store.
func (s *Indexer) Objects() Objects { return s.decoded }

func (s *Indexer) Get(_ context.Context, key client.ObjectKey, at Freshness) (object.Object, bool, error) {
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

// checked refuses a value that a transform has put in place of an object.
func checked(raw any) (client.Object, error) {
	obj, ok := raw.(client.Object)
	if !ok {
		return nil, fmt.Errorf("the cache holds a %T, which is no client.Object; check the transform of this kind", raw)
	}
	return obj, nil
}

// Keeper implements Store.
func (s *Indexer) Keeper() keeper { return s.kept }

// bytesHeld compares states with the objects of now: an Indexer does not tell of writes. An object of
// several states counts for each of them.
func (s *Indexer) bytesHeld(states []*indexerState) (held []int, budget budget) {
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

// indexerState has what a list with pages to come has read from an Indexer: all matches, sorted.
// There are no snapshots of an Indexer, but its objects do not change.
type indexerState struct {
	store    *Indexer
	revision string
	items    []Item
	looked   int // at so many objects for them
}

func (read *indexerState) Keep() uint64 { return read.store.kept.add(read, 0) }

// Find implements Store.
func (s *Indexer) Find(_ context.Context, q *Request) (Answer, error) {
	if err := s.reached(q.Fresh); err != nil {
		return Answer{}, err
	}
	state, err := s.state(q)
	if err != nil {
		return Answer{}, err
	}
	a := Answer{Revision: state.revision, State: state, Way: q.way("", state.looked)}
	for field := range q.Fields.Equals() {
		a.Way = q.way(postings.Name(field), state.looked)
		break
	}
	begin, _ := slices.BinarySearchFunc(state.items, q.Page.From, func(it Item, key string) int { return strings.Compare(it.Key, key) })
	for _, it := range state.items[begin:] {
		if q.Page.State != 0 && !s.matches(it, q) {
			continue
		}
		if q.Page.Limit > 0 && int64(len(a.Items)) == q.Page.Limit {
			a.Rest++
			if !q.counted() {
				break
			}
			continue
		}
		a.Items = append(a.Items, it)
	}
	return a, nil
}

// State returns the objects that match q now, or the state of the page before.
func (s *Indexer) state(q *Request) (*indexerState, error) {
	if q.Page.State != 0 {
		return s.kept.Find(q.Page.State)
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
		it := Item{Key: object.Key(obj.GetNamespace(), obj.GetName()), Value: s.decoded.Keep(obj)}
		if s.matches(it, q) {
			state.items = append(state.items, it)
		}
	}
	slices.SortFunc(state.items, func(a, b Item) int { return strings.Compare(a.Key, b.Key) })
	return state, nil
}

func (s *Indexer) matches(it Item, q *Request) bool {
	obj, err := s.decoded.Materialize(it.Value)
	return err == nil && (q.Namespace == "" || it.Value.Namespace() == q.Namespace) &&
		(Unrestricted(q.Labels) || q.Labels.Matches(it.Value.Labels())) &&
		q.Fields.Matches(indexed{obj.(client.Object), s.fields})
}

// candidates returns a small set of objects that includes all matches.
func (s *Indexer) candidates(q *Request) ([]any, error) {
	if q.Fields.Nothing() {
		return nil, nil
	}
	if q.Key != "" {
		raw, ok, err := s.indexer.GetByKey(object.StoreKey(q.Key))
		if err != nil || !ok {
			return nil, err
		}
		return []any{raw}, nil
	}
	for field, value := range q.Fields.Equals() {
		return s.indexer.ByIndex(postings.Name(field), postings.Key(q.Namespace, value))
	}
	if q.Namespace != "" {
		return s.indexer.ByIndex(toolscache.NamespaceIndex, q.Namespace)
	}
	return s.indexer.List(), nil
}

// indexed is an object whose field values are extracted when asked for.
type indexed struct {
	client.Object
	fields Fields
}

func (o indexed) HasFieldValue(field, value string) bool {
	return slices.Contains(o.fields.Values(o.Object, field), value)
}
