// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

// intake is what the Reflector writes into. It belongs to the goroutine of the list-watch.
type intake struct {
	*Cacher
	abort context.CancelCauseFunc // ends the list-watch
	lost  error                   // why an event of this list-watch could not be kept
	group revisionGroup
}

var (
	_ toolscache.ReflectorStore         = (*intake)(nil)
	_ toolscache.ReflectorBookmarkStore = (*intake)(nil)
)

// begin begins a list-watch, which abort ends. What the one before left in the group is in
// the list.
func (in *intake) begin(abort context.CancelCauseFunc) {
	in.group.take(in.progress.Remove)
	in.group = revisionGroup{}
	in.abort, in.lost = abort, nil
}

var errRevisionInterrupted = errors.New("the watch of the storage ended between the events of one revision")

// rewatch is called when a Reflector watches again where the last watch has ended. The rest of
// a revision does not come then, so that the list-watch has to begin anew.
func (in *intake) rewatch() error {
	return in.take(func() error {
		if len(in.group.changes) > 0 {
			return errRevisionInterrupted
		}
		return nil
	})
}

// take takes an event. When one cannot be kept the list-watch has to begin anew, and nothing
// that comes behind it is taken: a Reflector logs the error and goes on, and who watches
// would never know that there was an event.
func (in *intake) take(event func() error) error {
	if in.lost == nil {
		if in.lost = event(); in.lost != nil {
			in.abort(in.lost)
		}
	}
	return in.lost
}

// item returns what the engine gets of an object.
func (in *intake) item(raw any) (item watchcache.Item[*element], obj runtime.Object, err error) {
	obj, ok := raw.(runtime.Object)
	if !ok {
		return item, nil, fmt.Errorf("the storage of %s gave a %T, which is no runtime.Object", in.config.GroupResource, raw)
	}
	if item.Revision, err = in.config.Versioner.ObjectResourceVersion(obj); err != nil {
		return item, nil, err
	}
	if item.Key, err = in.config.KeyFunc(obj); err != nil {
		return item, nil, fmt.Errorf("the key of an object of %s: %w", in.config.GroupResource, err)
	}
	return item, obj, nil
}

// Add implements ReflectorStore.
func (in *intake) Add(raw any) error { return in.Update(raw) }

// Update implements ReflectorStore.
func (in *intake) Update(raw any) error {
	return in.take(func() error { return in.update(raw) })
}

func (in *intake) update(raw any) error {
	item, obj, err := in.item(raw)
	if err != nil {
		return err
	}
	if item.Value, err = in.elements.keep(obj); err != nil {
		return err
	}
	in.apply(watchcache.Change[*element, *sharing]{Item: item, Attached: &sharing{}})
	return nil
}

// Delete implements ReflectorStore. The object has the revision of the deletion.
func (in *intake) Delete(raw any) error {
	return in.take(func() error { return in.delete(raw) })
}

func (in *intake) delete(raw any) error {
	item, _, err := in.item(raw)
	if err != nil {
		return err
	}
	in.apply(watchcache.Change[*element, *sharing]{Item: item, Deleted: true, Attached: &sharing{}})
	return nil
}

// Replace implements ReflectorStore.
func (in *intake) Replace(list []any, resourceVersion string) error {
	revision, err := in.config.Versioner.ParseResourceVersion(resourceVersion)
	if err != nil {
		return err
	}
	items := make([]watchcache.Item[*element], 0, len(list))
	for n, raw := range list {
		list[n] = nil // one that is kept flat can be collected at once
		item, obj, err := in.item(raw)
		if err != nil {
			return err
		}
		if item.Value, err = in.elements.keep(obj); err != nil {
			return err
		}
		items = append(items, item)
	}
	in.engine.Replace(items, revision)
	in.dispatcher.reset()
	in.ready.set(true, nil)
	in.metrics.initialized(revision)
	return nil
}

// Bookmark implements ReflectorBookmarkStore.
func (in *intake) Bookmark(resourceVersion string) error {
	return in.take(func() error { return in.reached(resourceVersion) })
}

func (in *intake) reached(resourceVersion string) error {
	revision, err := in.config.Versioner.ParseResourceVersion(resourceVersion)
	if err != nil {
		return err
	}
	in.writeGroup()
	in.engine.Bookmark(revision)
	in.metrics.reached(revision)
	return nil
}

// Resync implements ReflectorStore; there is nothing to do.
func (in *intake) Resync() error { return nil }
