// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/informer"
	"github.com/tarn-dev/tarn/internal/object"
)

// sharedWatch is the informer of a kind whose representations share one watch. It holds unstructured
// objects, which have all that the server sent; the entries of the kind are views of it. It ends with
// the last of them.
type sharedWatch struct {
	entry *MapEntry // of the informer; it is not among the entries of the map

	mu    sync.Mutex             // guards what follows; it comes after Map.mu
	users int                    // entries that are views
	made  map[Representation]int // how many views there ever were
	ended bool
}

// watched returns the key of what is listed and watched for an entry of key.
func (o *Options) watched(key Key) Key {
	if o.isView(key) {
		key.Representation = Unstructured
	}
	return key
}

// isView reports whether the entry for key is a view. Metadata in a part are not: nothing else is in the part.
func (o *Options) isView(key Key) bool {
	return o.sharesWatch(key.GroupVersionKind) && !(o.place == aPart && key.Representation == Metadata)
}

// Stored returns an empty object in the representation in which the map stores what is shown as obj: obj itself,
// or an unstructured object if the representations of the kind share one watch.
func (m *Map) Stored(gvk schema.GroupVersionKind, obj client.Object) client.Object {
	if _, whole := obj.(*unstructured.Unstructured); whole || !m.options.sharesWatch(gvk) {
		return obj
	}
	return &unstructured.Unstructured{}
}

// Show overwrites obj with what is stored of it, if that is another object. The error says that it does not fit
// the Go type.
func (m *Map) Show(stored, obj client.Object) error {
	if stored == obj {
		return nil
	}
	return object.DecodeInto(stored, obj)
}

// newViewLocked makes the entry for key: a view of the informer of its kind, which is made first if
// there is none.
func (m *Map) newViewLocked(key Key, make func() (*MapEntry, error)) (*MapEntry, error) {
	w, ok := m.watches[key.GroupVersionKind]
	if !ok {
		entry, err := make()
		if err != nil {
			return nil, err
		}
		entry.waiting.policy = WaitOnFailure // callers wait for a view
		w = &sharedWatch{entry: entry, made: map[Representation]int{}}
	}
	view, err := w.view(&m.options, key)
	if err != nil {
		if !ok {
			w.entry.end()
		}
		return nil, err
	}
	if !ok {
		m.watches[key.GroupVersionKind] = w
		m.run(w.entry)
	}
	return view, nil
}

// view makes an entry that shows the objects in the representation of key.
func (w *sharedWatch) view(o *Options, key Key) (*MapEntry, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	example, err := o.exampleOf(key)
	if err != nil {
		return nil, err
	}
	space := key.Representation.String() + "/"
	if w.made[key.Representation]++; w.made[key.Representation] > 1 { // the indexes of the one before may be going
		space = fmt.Sprintf("%s-%d/", key.Representation, w.made[key.Representation])
	}
	view, err := informer.NewView(w.entry.base(), example, space)
	if err != nil {
		return nil, fmt.Errorf("cannot show %s in one watch with other representations: %w", key, err)
	}
	fields := w.entry.fields.In(space)
	w.users++
	e := &MapEntry{
		Informer: view,
		store:    w.entry.store.As(view.As()),
		key:      key,
		scope:    w.entry.scope,
		fields:   fields,
		life:     newLife(w.leave),
		failures: w.entry.failures,
		waiting: waiting{
			policy: o.onFailure(key.GroupVersionKind), idleTimeout: w.entry.waiting.idleTimeout, optional: w.entry.optional(),
		},
	}
	e.Reader = o.newReader(e)
	return e, nil
}

// leave says that an entry has ended. The last one ends the informer.
func (w *sharedWatch) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.users--; w.users == 0 {
		w.ended = true
		w.entry.end()
	}
}

// forgetEndedLocked lets go of the informer of a kind if it has ended.
func (m *Map) forgetEndedLocked(gvk schema.GroupVersionKind) {
	w, ok := m.watches[gvk]
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		delete(m.watches, gvk)
	}
}

// exampleOf returns an empty object of key.
func (s *Shared) exampleOf(key Key) (client.Object, error) {
	switch key.Representation {
	case Unstructured:
		return &unstructured.Unstructured{}, nil
	case Metadata:
		return &metav1.PartialObjectMetadata{}, nil
	}
	obj, err := s.Scheme.New(key.GroupVersionKind)
	if err != nil {
		return nil, err
	}
	example, ok := obj.(client.Object)
	if !ok {
		return nil, fmt.Errorf("the Go type of %s is %T, which has no metadata", key, obj)
	}
	return example, nil
}
