// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/consistencydetector"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/projection"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

// reflectorStore is the store that the Reflector, or Follow in its place, writes into. It transforms each received object once,
// keeps it in the form of the engine, and writes it there.
type reflectorStore struct {
	engine      *engine
	form        *object.Form
	description string                   // of the kind, in errors
	transform   toolscache.TransformFunc // set before the informer starts
	turn        sync.Mutex               // held while transform runs, which is called for one object at a time
	published   toolscache.Store         // of client-go's, which publishes the version as a metric; nil without a name for that
	progress    *progress
	handled     atomic.Bool // whether there are handlers
	complete    atomic.Bool // whether a list is in the engine
	losses      *losses

	// mu is held from the last look at the declared fields to the write: so each object in
	// the engine has the values of all of them. It comes after indexers.mu and before the
	// engine's lock.
	mu     sync.Mutex
	writes int // since the dictionary was last looked at
}

var (
	_ toolscache.TransformingStore      = (*reflectorStore)(nil)
	_ toolscache.ReflectorBookmarkStore = (*reflectorStore)(nil)
)

// newReflectorStore returns a store that writes into an engine of objects of form. It calls listing each
// time that it is about to write a list, and listed when it has written it.
func newReflectorStore(e *engine, form *object.Form, o *Options, listing func(uint64), listed func()) *reflectorStore {
	in := &reflectorStore{
		engine: e, form: form, description: o.Description, progress: &progress{listing: listing, listed: listed, wentBack: o.WentBack, orderly: true},
		losses: &losses{changed: o.Lost, unindexed: unindexed{changed: o.Lost}},
	}
	if o.Identifier != (toolscache.InformerNameAndResource{}) {
		in.published = toolscache.NewStore(toolscache.MetaNamespaceKeyFunc, toolscache.WithStoreMetrics(o.Identifier, nil))
	}
	return in
}

// publish publishes the version of the state.
func (in *reflectorStore) publish(version string) {
	if in.published != nil {
		in.published.Bookmark(version)
	}
}

// receive returns the object that the transform makes of obj, and its metadata.
func (in *reflectorStore) receive(obj any) (any, metav1.Object, error) {
	obj, m, err := in.transformed(obj)
	if err != nil {
		return nil, nil, fmt.Errorf("transforming: %w", err)
	}
	return obj, m, nil
}

// transformed is receive for client-go's store, which says in its errors that it transforms. Its
// errors are *TransformError.
func (in *reflectorStore) transformed(obj any) (any, metav1.Object, error) {
	received := obj
	if in.transform != nil {
		var err error
		if obj, err = in.inTurn(received); err != nil {
			return nil, nil, &TransformError{receivedKey(received), fmt.Errorf("%s: %w", in.name(received), err)}
		}
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, nil, &TransformError{receivedKey(received), fmt.Errorf("%s: the transform made a %T of it, which has no metadata: %w", in.name(received), obj, err)}
	}
	return obj, m, nil
}

func (in *reflectorStore) inTurn(obj any) (any, error) {
	in.turn.Lock()
	defer in.turn.Unlock()
	return in.transform(obj)
}

// name names an object in errors.
func (in *reflectorStore) name(obj any) string {
	key, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return in.description
	}
	return in.description + " " + key
}

// receivedKey returns the key of a received object.
func receivedKey(received any) types.NamespacedName {
	if m, err := meta.Accessor(received); err == nil {
		return types.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetName()}
	}
	return types.NamespacedName{}
}

// lose notes the object of an error of receive or transformed.
func lose(err error, note func(*TransformError)) {
	if lost := (*TransformError)(nil); errors.As(err, &lost) {
		note(lost)
	}
}

// Transformer implements TransformingStore: the Reflector collects the objects of a streaming
// list in the form of the engine from the first, unless client-go is to compare them with a list.
func (in *reflectorStore) Transformer() toolscache.TransformFunc {
	if consistencydetector.IsDataConsistencyDetectionForWatchListEnabled() {
		return nil
	}
	return func(obj any) (any, error) {
		if a, ok := obj.(*decodedEvent); ok {
			return a.kept, nil
		}
		obj, _, err := in.transformed(obj)
		if err != nil {
			lose(err, in.losses.addPending)
			return nil, err
		}
		return in.form.Keep(obj), nil
	}
}

func item(o object.Object) watchcache.Item[object.Object] {
	return watchcache.Item[object.Object]{
		Key: object.Key(o.Namespace(), o.Name()), Revision: revision(o.ResourceVersion()), Value: o,
	}
}

// revision returns the number in a resource version. API servers send numbers alone. For any other
// text it returns a hash, so that different texts stay different.
func revision(resourceVersion string) uint64 {
	if n, err := strconv.ParseUint(resourceVersion, 10, 64); err == nil || resourceVersion == "" {
		return n
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(resourceVersion))
	return uint64(h.Sum32())
}

// Add implements ReflectorStore.
func (in *reflectorStore) Add(obj any) error {
	in.progress.counts.events.Added.Add(1)
	return in.put(obj)
}

// Update implements ReflectorStore.
func (in *reflectorStore) Update(obj any) error {
	in.progress.counts.events.Updated.Add(1)
	return in.put(obj)
}

// put writes what was added or updated.
func (in *reflectorStore) put(obj any) error {
	c := change{}
	version := ""
	if a, ok := obj.(*decodedEvent); ok {
		c.Item, c.Attached, version = item(a.kept), newDelivery(in.form, a.object), a.metadata.GetResourceVersion()
	} else {
		received := obj
		obj, m, err := in.receive(received)
		if err != nil {
			lose(err, in.losses.add)
			return err
		}
		in.losses.found(receivedKey(received))
		c.Item, c.Attached, version = item(in.form.Keep(obj)), newDelivery(in.form, obj), m.GetResourceVersion()
	}
	if !in.progress.advance(version) {
		return nil
	}
	in.write(c)
	in.losses.unindexed.written(c.Item.Key, c.Item.Revision)
	in.publish(version)
	return nil
}

// Delete implements ReflectorStore. If the transform fails for the last state of an object, handlers
// get the state before in a DeletedFinalStateUnknown: the object is gone all the same.
func (in *reflectorStore) Delete(received any) error {
	if left, ok := received.(projection.Left); ok {
		return in.leave(left)
	}
	in.progress.counts.events.Deleted.Add(1)
	obj, m, err := in.receive(received)
	if err != nil {
		var unknown error
		if m, unknown = meta.Accessor(received); unknown != nil {
			return err
		}
		obj = nil
	}
	if !in.progress.advance(m.GetResourceVersion()) {
		return nil
	}
	in.losses.found(receivedKey(received))
	gone := watchcache.Item[object.Object]{
		Key: object.Key(m.GetNamespace(), m.GetName()), Revision: revision(m.GetResourceVersion()),
	}
	in.write(change{Item: gone, Deleted: true, Attached: newDelivery(in.form, obj)})
	in.losses.unindexed.written(gone.Key, gone.Revision)
	in.publish(m.GetResourceVersion())
	return err
}

// leave takes out an object that is not kept any more, if it was. Handlers get its last state that was kept, which no transform sees
// again.
func (in *reflectorStore) leave(m metav1.Object) error {
	version := m.GetResourceVersion()
	if !in.progress.advance(version) {
		return nil
	}
	in.losses.found(types.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetName()})
	gone := watchcache.Item[object.Object]{Key: object.Key(m.GetNamespace(), m.GetName()), Revision: revision(version)}
	if before, there := in.engine.Get(gone.Key); there {
		in.progress.counts.events.Deleted.Add(1)
		var last any // without it, handlers get a DeletedFinalStateUnknown
		if in.handled.Load() {
			last, _ = in.form.Materialize(before.Value)
		}
		in.write(change{Item: gone, Deleted: true, Attached: newDelivery(in.form, last)})
		in.losses.unindexed.written(gone.Key, gone.Revision)
	} else {
		in.engine.Bookmark(gone.Revision)
	}
	in.publish(version)
	return nil
}

// write writes changes in one step. Their objects may have been kept before fields were declared,
// or with an older dictionary.
func (in *reflectorStore) write(changes ...change) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for n := range changes {
		if c := &changes[n]; !c.Deleted {
			c.Item.Value = in.form.Refresh(c.Item.Value)
		}
	}
	in.engine.Apply(changes...)
	in.renewLocked(len(changes))
}

// renewCheck is how many writes there are between two looks at the dictionary.
const renewCheck = 1000

// renewLocked moves the objects to a new dictionary when most of the old one is dead.
func (in *reflectorStore) renewLocked(writes int) {
	if in.writes += writes; in.writes < renewCheck {
		return
	}
	in.writes = 0
	if in.form.Stale(in.engine.Len()) {
		move := in.form.Renew()
		in.engine.Rewrite(func(i watchcache.Item[object.Object]) object.Object { return move(i.Value) })
	}
}

// declare adds a field and its index; all objects have its values when it returns.
func (in *reflectorStore) declare(name string, extract func(client.Object) []string) {
	in.declareAll(func() { in.form.Declare(name, extract) }, name)
}

// declareAll adds the fields that declare adds to the form, and their indexes.
func (in *reflectorStore) declareAll(declare func(), names ...string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	declare()
	in.engine.Rewrite(func(i watchcache.Item[object.Object]) object.Object { return in.form.Retell(i.Value) })
	for _, name := range names {
		in.engine.AddIndex(name)
	}
}

// undeclare removes fields and their indexes. Snapshots that have them keep them.
func (in *reflectorStore) undeclare(names ...string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.form.Undeclare(names...)
	for _, name := range names {
		in.engine.RemoveIndex(name)
	}
}

// Replace implements ReflectorStore.
func (in *reflectorStore) Replace(list []any, resourceVersion string) error {
	items := make([]watchcache.Item[object.Object], 0, len(list))
	for n, obj := range list {
		list[n] = nil // a decoded object can be collected as soon as it is kept flat
		kept, ok := obj.(object.Object)
		if !ok {
			obj, _, err := in.receive(obj)
			if err != nil {
				in.losses.refused = err
				return err
			}
			kept = in.form.Keep(obj)
		}
		items = append(items, item(kept))
	}
	restored := in.progress.replaced(resourceVersion) // tells WentBack first, before the engine counts the restore
	in.replace(items, resourceVersion, restored)
	in.losses.received(items)
	in.losses.replace()
	in.losses.unindexed.replaced(items)
	in.publish(resourceVersion)
	in.complete.Store(true)
	in.progress.listed()
	return nil
}

// replace writes a whole state, perhaps of a restored source. As with write, its objects may be older
// than a field or the dictionary.
func (in *reflectorStore) replace(items []watchcache.Item[object.Object], resourceVersion string, restored bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for n := range items {
		items[n].Value = in.form.Refresh(items[n].Value)
	}
	in.progress.listing(revision(resourceVersion))
	if restored {
		in.engine.Restore(items, revision(resourceVersion))
	} else {
		in.engine.Replace(items, revision(resourceVersion))
	}
	in.renewLocked(renewCheck) // a list may have changed everything
}

// Bookmark implements ReflectorBookmarkStore.
func (in *reflectorStore) Bookmark(resourceVersion string) error {
	in.progress.counts.events.Bookmarks.Add(1)
	if !in.progress.advance(resourceVersion) {
		return nil
	}
	in.engine.Bookmark(revision(resourceVersion))
	in.publish(resourceVersion)
	return nil
}

// Resync implements ReflectorStore. Handlers resync by themselves.
func (in *reflectorStore) Resync() error { return nil }
