// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/informer"
	"github.com/tarn-dev/tarn/internal/ownwrites"
	"github.com/tarn-dev/tarn/pkg/index"
)

// sharedWatch is the informer of a kind whose representations share one watch. It holds unstructured
// objects, which have all that the server sent; the entries of the kind are views of it. It ends with
// the last of them.
type sharedWatch struct {
	entry *MapEntry // of the informer; it is not among the entries of the map

	mu    sync.Mutex // guards what follows; it comes after Map.mu
	users int        // entries that are views
	ended bool
	shown map[Representation]shown // what there was once: the engine keeps its indexes
}

// shown is what a view of an informer leaves to the next one of the same representation.
type shown struct {
	view   *informer.View
	fields *index.Fields
}

// sharesWatch reports whether the representations of a kind share one watch.
func (m *Map) sharesWatch(gvk schema.GroupVersionKind) bool {
	return m.options.NewInformer == nil && ptr.Deref(m.options.tuning(gvk).OneWatch, false)
}

// watched returns the key of what is listed and watched for an entry of key.
func (m *Map) watched(key Key) Key {
	if m.sharesWatch(key.GroupVersionKind) {
		key.Representation = Unstructured
	}
	return key
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
		entry.waiting.policy = WaitOnFailure // those who wait, wait for a view
		w = &sharedWatch{entry: entry, shown: map[Representation]shown{}}
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
		if m.ctx != nil {
			m.runLocked(w.entry)
		}
	}
	return view, nil
}

// view makes an entry that shows the objects in the representation of key.
func (w *sharedWatch) view(o *Options, key Key) (*MapEntry, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, ok := w.shown[key.Representation]
	if ok {
		s.view = s.view.Again()
	} else {
		example, err := exampleOf(o, key)
		if err != nil {
			return nil, err
		}
		space := key.Representation.String() + "/"
		if s.view, err = informer.NewView(w.entry.ours(), example, space); err != nil {
			return nil, fmt.Errorf("cannot show %s in one watch with other representations: %w", key, err)
		}
		s.fields = w.entry.fields.In(space)
		w.shown[key.Representation] = s
	}
	w.users++
	e := &MapEntry{
		Informer: s.view,
		Reader:   w.entry.Reader.As(s.view.As(), s.fields),
		key:      key,
		scope:    w.entry.scope,
		fields:   s.fields,
		release:  sync.OnceFunc(w.leave),
		failures: w.entry.failures,
		waiting: waiting{
			policy: o.tuning(key.GroupVersionKind).OnFailure, silence: w.entry.waiting.silence, optional: w.entry.optional(),
		},
	}
	e.ctx, e.remove = context.WithCancel(context.Background())
	return e, nil
}

// Watch returns a value that is equal for entries that show what one informer lists and watches, and for no
// others: the figures of such entries are those of the same objects. It can be the key of a map.
func (e *MapEntry) Watch() any { return e.failures }

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
func exampleOf(o *Options, key Key) (client.Object, error) {
	switch key.Representation {
	case Unstructured:
		return &unstructured.Unstructured{}, nil
	case Metadata:
		return &metav1.PartialObjectMetadata{}, nil
	}
	obj, err := o.Scheme.New(key.GroupVersionKind)
	if err != nil {
		return nil, err
	}
	example, ok := obj.(client.Object)
	if !ok {
		return nil, fmt.Errorf("the Go type of %s is %T, which has no metadata", key, obj)
	}
	return example, nil
}

// NoteWrite notes a write in the informers of its kind, if there are any. If there are none, the first
// list of one that comes later is not older than the write.
func (m *Map) NoteWrite(w ownwrites.Write) {
	m.options.written.note(w.Kind.GroupKind(), w.Revision) // before the look at the informers
	for _, entry := range m.informersOf(w.Kind) {
		entry.NoteWrite(w)
	}
}

// informersOf returns the entries of a kind that have an informer of their own.
func (m *Map) informersOf(gvk schema.GroupVersionKind) (found []*MapEntry) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if w, ok := m.watches[gvk]; ok {
		return []*MapEntry{w.entry}
	}
	for _, r := range []Representation{Structured, Unstructured, Metadata} {
		if entry, ok := m.entries[Key{GroupVersionKind: gvk, Representation: r}]; ok {
			found = append(found, entry)
		}
	}
	return found
}
