// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

// engineIndexer is the engine of an informer as client-go's Indexer. Callers must not change the objects
// that it returns. A flat object is made for the call.
type engineIndexer struct {
	engine   *engine
	form     *object.Form
	indexers *indexers
	write    func(...change) // nil if the store cannot be written to
	as       *object.View    // nil if the objects are returned as they are kept
	unfit    string          // the index of the objects that as cannot show, if there are indexes
}

// made returns an object of the store.
func (v *engineIndexer) made(o object.Object) (any, error) {
	if v.as != nil {
		return v.as.Materialize(o)
	}
	return v.form.Materialize(o)
}

var _ toolscache.Indexer = (*engineIndexer)(nil)

// List implements Store. It cannot return an error, so it leaves out an object that does not fit the type of the
// view: all other methods return one.
func (v *engineIndexer) List() []any {
	objects := []any{}
	for item := range v.engine.Snapshot().Items("", "") {
		if obj, err := v.made(item.Value); err == nil {
			objects = append(objects, obj)
		}
	}
	return objects
}

// ListKeys implements Store.
func (v *engineIndexer) ListKeys() []string {
	keys := []string{}
	for item := range v.engine.Snapshot().Items("", "") {
		keys = append(keys, object.StoreKey(item.Key))
	}
	return keys
}

// Get implements Store.
func (v *engineIndexer) Get(obj any) (any, bool, error) {
	key, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return nil, false, toolscache.KeyError{Obj: obj, Err: err}
	}
	return v.GetByKey(key)
}

// GetByKey implements Store.
func (v *engineIndexer) GetByKey(key string) (any, bool, error) {
	namespace, name, err := toolscache.SplitMetaNamespaceKey(key)
	if err != nil || strings.HasPrefix(key, "/") { // it is the key of nothing
		return nil, false, nil
	}
	item, ok := v.engine.Get(object.Key(namespace, name))
	if !ok {
		return nil, false, nil
	}
	obj, err := v.made(item.Value)
	return obj, err == nil, err
}

// Add implements Store. Like client-go's it changes the store alone: no handler is told.
func (v *engineIndexer) Add(obj any) error {
	if v.write == nil {
		return errReadOnly
	}
	if _, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(obj); err != nil {
		return toolscache.KeyError{Obj: obj, Err: err}
	}
	v.write(change{Item: item(v.form.Keep(obj)), Silent: true})
	return nil
}

// Update implements Store.
func (v *engineIndexer) Update(obj any) error { return v.Add(obj) }

// Delete implements Store.
func (v *engineIndexer) Delete(obj any) error {
	if v.write == nil {
		return errReadOnly
	}
	key, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return toolscache.KeyError{Obj: obj, Err: err}
	}
	namespace, name, err := toolscache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	v.write(change{
		Item: watchcache.Item[object.Object]{Key: object.Key(namespace, name)}, Deleted: true, Silent: true,
	})
	return nil
}

// Replace implements Store. Like client-go's it changes the store alone: no handler is
// told, and neither the informer nor a handler has synced by it.
func (v *engineIndexer) Replace(list []any, resourceVersion string) error {
	if v.write == nil {
		return errReadOnly
	}
	kept := map[string]bool{}
	changes := make([]change, 0, len(list))
	for _, obj := range list {
		if _, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(obj); err != nil {
			return toolscache.KeyError{Obj: obj, Err: err}
		}
		written := change{Item: item(v.form.Keep(obj)), Silent: true}
		kept[written.Item.Key] = true
		changes = append(changes, written)
	}
	for there := range v.engine.Snapshot().Items("", "") {
		if !kept[there.Key] {
			gone := watchcache.Item[object.Object]{Key: there.Key}
			changes = append(changes, change{Item: gone, Deleted: true, Silent: true})
		}
	}
	v.write(changes...)
	v.Bookmark(resourceVersion)
	return nil
}

// Resync implements Store; there is nothing to do.
func (v *engineIndexer) Resync() error { return nil }

// Bookmark implements Store.
func (v *engineIndexer) Bookmark(resourceVersion string) {
	v.engine.Bookmark(revision(resourceVersion))
}

// LastStoreSyncResourceVersion implements Store.
func (v *engineIndexer) LastStoreSyncResourceVersion() string {
	if n := v.engine.Revision(); n > 0 {
		return strconv.FormatUint(n, 10)
	}
	return ""
}

// GetIndexers implements Indexer.
func (v *engineIndexer) GetIndexers() toolscache.Indexers {
	return v.indexers.all()
}

// AddIndexers implements Indexer.
func (v *engineIndexer) AddIndexers(indexers toolscache.Indexers) error {
	return v.indexers.add(indexers)
}

// errReadOnly is the error of a write to the store of a view. The store keeps whole objects, and a
// view may lack parts of them.
var errReadOnly = errors.New("the store of a view cannot be written to: several representations of the kind share one watch")

func errNoIndex(name string) error { return fmt.Errorf("index with name %s does not exist", name) }

// keys returns the engine's keys under a value of an index.
func (v *engineIndexer) keys(snapshot *snapshot, name, value string) ([]string, error) {
	if _, ok := v.indexers.named(name); !ok {
		return nil, errNoIndex(name)
	}
	if v.indexers.inOrder(name) {
		var keys []string
		for item := range snapshot.Items(object.KeyPrefix(value), "") {
			if value != "" || item.Value.Namespace() == "" {
				keys = append(keys, item.Key)
			}
		}
		return keys, nil
	}
	postings := snapshot.Index(v.indexers.inEngine(name))
	if postings == nil {
		return nil, errNoIndex(name)
	}
	if err := v.anyUnfit(snapshot); err != nil {
		return nil, err
	}
	return slices.Collect(postings.Keys(value, "")), nil
}

// anyUnfit returns the error of an object that the view cannot show: it is not known which values it has.
func (v *engineIndexer) anyUnfit(snapshot *snapshot) error {
	if postings := snapshot.Index(v.unfit); v.as != nil && postings != nil {
		for key := range postings.Keys("", "") {
			item, _ := snapshot.Get(key)
			if _, err := v.made(item.Value); err != nil {
				return err
			}
		}
	}
	return nil
}

// ByIndex implements Indexer.
func (v *engineIndexer) ByIndex(name, value string) ([]any, error) {
	snapshot := v.engine.Snapshot()
	keys, err := v.keys(snapshot, name, value)
	if err != nil {
		return nil, err
	}
	objects := []any{}
	for _, key := range keys {
		item, ok := snapshot.Get(key)
		if !ok {
			continue
		}
		obj, err := v.made(item.Value)
		if err != nil {
			return nil, err
		}
		objects = append(objects, obj)
	}
	return objects, nil
}

// IndexKeys implements Indexer.
func (v *engineIndexer) IndexKeys(name, value string) ([]string, error) {
	keys, err := v.keys(v.engine.Snapshot(), name, value)
	for n, key := range keys {
		keys[n] = object.StoreKey(key)
	}
	return keys, err
}

// Index implements Indexer.
func (v *engineIndexer) Index(name string, obj any) ([]any, error) {
	f, ok := v.indexers.named(name)
	if !ok {
		return nil, errNoIndex(name)
	}
	values, err := f(obj)
	if err != nil {
		return nil, err
	}
	found, seen := []any{}, map[client.ObjectKey]bool{}
	for _, value := range values {
		objects, err := v.ByIndex(name, value)
		if err != nil {
			return nil, err
		}
		for _, o := range objects {
			if key := client.ObjectKeyFromObject(o.(client.Object)); !seen[key] {
				seen[key] = true
				found = append(found, o)
			}
		}
	}
	return found, nil
}

// ListIndexFuncValues implements Indexer.
func (v *engineIndexer) ListIndexFuncValues(name string) []string {
	snapshot := v.engine.Snapshot()
	if _, ok := v.indexers.named(name); !ok {
		return []string{}
	}
	if v.indexers.inOrder(name) {
		var namespaces []string
		for item := range snapshot.Items("", "") {
			if ns := item.Value.Namespace(); len(namespaces) == 0 || namespaces[len(namespaces)-1] != ns {
				namespaces = append(namespaces, ns)
			}
		}
		return namespaces
	}
	if postings := snapshot.Index(v.indexers.inEngine(name)); postings != nil {
		return slices.Collect(postings.Values())
	}
	return []string{}
}
