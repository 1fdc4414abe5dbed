// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/contain"
	"github.com/tarn-dev/tarn/internal/informer"
	"github.com/tarn-dev/tarn/internal/note"
	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/pending"
	"github.com/tarn-dev/tarn/internal/postings"
	"github.com/tarn-dev/tarn/internal/store"
	"github.com/tarn-dev/tarn/pkg/index"
)

// pendingWrites shows what the program has written in the reads of one informer. A nil *pendingWrites shows nothing.
type pendingWrites struct {
	entry    *MapEntry
	options  *Options
	informer *informer.Informer
	kept     *store.Engine
	before   atomic.Uint64 // the revision at which the program has written the kind when the informer began to list; 0 when it has
	endings

	mu     sync.Mutex                                    // guards closed, and is held to make writes
	writes atomic.Pointer[pending.Writes[object.Object]] // nil before the first: programs write few of the kinds that they read
	closed bool
}

// endings counts writes that reads do not show any more.
type endings struct {
	// unconfirmed is how many writes the watch has not shown in five minutes: reads have shown them until then. NoRoom is how
	// often there was no room for more, told once until there is room again.
	unconfirmed, noRoom atomic.Uint64
}

// noted returns where writes are noted; nil before the first, which open makes unless the entry has ended.
func (w *pendingWrites) noted() *pending.Writes[object.Object] { return w.writes.Load() }

func (w *pendingWrites) open() *pending.Writes[object.Object] {
	if made := w.noted(); made != nil {
		return made
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.noted() == nil && !w.closed {
		w.writes.Store(w.kept.ShowOwnWrites(store.OwnWrites{Ask: w.ask, Budget: w.options.OwnWrites, Ended: w.ended}))
	}
	return w.noted()
}

// selector selects what the informer holds.
func (w *pendingWrites) selector() Selector {
	return w.options.Selector.With(w.entry.scope.rule.Requirements())
}

// lacks returns why an object is missing in reads, for the error of its transform.
func (w *pendingWrites) lacks(err error) error {
	lost := (*informer.TransformError)(nil)
	if !errors.As(err, &lost) {
		return err
	}
	return w.entry.lacks(1, TransformFailed, lost.Object, lost)
}

// reset says that resource versions have gone back.
func (w *pendingWrites) reset() {
	w.open().Reset() // also if nothing is noted: what is noted next may be of before the restored list
}

// begin says that the informer lists from nothing from now on. Earlier writes are not noted here, and
// the list may be older than they are.
func (w *pendingWrites) begin() {
	w.before.Store(w.options.written.newest(w.entry.key.GroupKind()))
}

// listed says that a list is in the engine. Lists after the first one are not older than the state was.
func (w *pendingWrites) listed() {
	if before := w.before.Swap(0); before > 0 {
		w.open().Listed(before)
	} else {
		w.noted().Listed(0)
	}
}

func (w *pendingWrites) close() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.noted().Close()
}

// ended logs a write that the watch has not shown, or for which there is no room.
func (w *pendingWrites) ended(e pending.Ending) {
	text, reason := "A write of this program is no longer shown by reads", "the watch has not shown it in five minutes"
	if e.NoRoom {
		w.noRoom.Add(1)
		text = "There is no room for more objects that this program has written and the watch has not shown"
		reason = "reads of the others ask the API server; see Tuning.OwnWritesBudget"
	} else {
		w.unconfirmed.Add(1)
	}
	namespace, name := object.SplitKey(e.Key)
	w.options.Logger.Info(text, "kind", w.entry.String(), "reason", reason, "object", client.ObjectKey{Namespace: namespace, Name: name},
		"outcome", e.Outcome.String(), "resourceVersion", e.Revision, "reached", e.Reached)
}

// NoteWrite notes a write in the informers of its kind, if there are any. Without informers, the first
// list of a later one is not older than the write.
func (m *Map) NoteWrite(w note.Write) {
	m.NoteKind(w.Kind.GroupKind(), w.Revision) // before the look at the informers
	for _, entry := range m.informersOf(w.Kind) {
		entry.noteWrite(w)
	}
}

// NoteKind notes that a kind was written at a revision, or at an unknown one: 0. The first list of a later informer, also of a
// part of the map, is not older.
func (m *Map) NoteKind(kind schema.GroupKind, revision uint64) {
	m.options.written.note(kind, revision)
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

// noteWrite notes a write to an object that the informer may hold. Reads of the entry that begin
// when it has returned show it, or something newer. It calls no function of the user: reads do.
func (e *MapEntry) noteWrite(write note.Write) {
	w := e.pending
	if w == nil {
		return
	}
	if e.Reader.ClusterScoped() {
		write.Key.Namespace = ""
	}
	if write.Key.Name == "" {
		w.open().NotePrefix(object.KeyPrefix(write.Key.Namespace), write.Revision)
		return
	}
	if w.selector().Excludes(write.Key) {
		return // the informer never holds it
	}
	noted := pending.Entry[object.Object]{
		Key: object.Key(write.Key.Namespace, write.Key.Name), Outcome: write.Outcome, Revision: write.Revision, UID: write.UID,
	}
	switch {
	case write.Metadata != nil && w.excludes(write.Metadata): // whatever else is in it, and if the response says it
		noted.Outcome = note.Hidden
	case write.Outcome == note.Shown:
		noted.Bytes, noted.Make = write.Bytes, func() (made pending.Made[object.Object], err error) {
			err = contain.Call("a transform or an index function of "+e.String(), func() (err error) {
				made, err = w.make(write)
				return err
			})
			return made, err
		}
	}
	w.open().Note(noted)
}

// make makes what the informer will keep of an object that was written.
func (w *pendingWrites) make(write note.Write) (made pending.Made[object.Object], err error) {
	obj, err := write.Object(w.informer.Example())
	if err != nil {
		w.options.Logger.V(1).Info("The response to a write cannot be shown: reads ask the API server", "kind", w.entry.String(), "object", write.Key, "reason", err.Error())
		return made, pending.ErrNotWhole
	}
	switch held, known := w.holds(obj); {
	case !known:
		return made, pending.ErrNotWhole
	case !held:
		return made, nil
	}
	if !w.entry.scope.rule.Apply(obj) {
		return made, nil
	}
	item, err := w.informer.Keep(obj)
	if err != nil { // as it will be with what the watch brings
		return pending.Made[object.Object]{Lost: w.lacks(err)}, nil
	}
	return pending.Made[object.Object]{Value: item.Value, Held: true}, nil
}

// excludes reports whether the metadata of an object says that it is not in the scope of the informer.
func (w *pendingWrites) excludes(m client.Object) bool {
	s := w.selector()
	return s.Label != nil && !s.Label.Matches(labels.Set(m.GetLabels())) || s.Excludes(client.ObjectKeyFromObject(m)) || !w.entry.scope.rule.Keeps(m)
}

// holds reports whether obj is in the scope of the informer. It is not known if the scope selects by
// a field that is neither declared nor a field of all objects.
func (w *pendingWrites) holds(obj client.Object) (held, known bool) {
	if w.excludes(obj) {
		return false, true
	}
	selection, err := postings.Resolve(w.selector().Field, w.entry.fields)
	if err != nil {
		return false, false
	}
	return selection.Matches(withFields{obj, w.entry.fields}), true
}

// withFields is an object whose values of declared fields are extracted when asked for.
type withFields struct {
	client.Object
	fields *index.Fields
}

// HasFieldValue implements index.Object.
func (o withFields) HasFieldValue(field, value string) bool {
	return slices.Contains(o.fields.Values(o.Object, field), value)
}
