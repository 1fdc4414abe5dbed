// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/tarn-dev/tarn/pkg/cacher/internal/dispatch"
	"github.com/tarn-dev/tarn/pkg/cacher/internal/element"
)

// reflectorStore is what the Reflector writes into. It makes changes of the engine of what comes. It
// belongs to the goroutine of the list-watch.
type reflectorStore struct {
	config  *Config
	form    *element.Form
	engine  *dispatch.Engine
	metrics *metrics
	synced  func(revision uint64) // is called when a list has become the state

	abort  context.CancelCauseFunc // ends the list-watch
	lost   error                   // why an event of this list-watch could not be kept
	group  revisionGroup
	writes int // since the dictionary of flat objects was looked at
}

var (
	_ toolscache.ReflectorStore         = (*reflectorStore)(nil)
	_ toolscache.ReflectorBookmarkStore = (*reflectorStore)(nil)
)

// newReflectorStore returns what writes into engine. It calls synced whenever a list has become the state.
func newReflectorStore(
	config *Config, form *element.Form, engine *dispatch.Engine, progress progressRequester, m *metrics, synced func(revision uint64),
) *reflectorStore {
	in := &reflectorStore{config: config, form: form, engine: engine, metrics: m, synced: synced}
	in.group.progress = progress
	return in
}

// begin begins a list-watch, which abort ends. The events that the list-watch before held back are
// in the list.
func (in *reflectorStore) begin(abort context.CancelCauseFunc) {
	in.group.begin()
	in.abort, in.lost = abort, nil
}

var errRevisionInterrupted = errors.New("the watch of the storage ended between the events of one revision")

// rewatch is called when a Reflector watches again where the last watch has ended. The rest of
// a revision does not come then, so that the list-watch has to begin anew.
func (in *reflectorStore) rewatch() error {
	return in.take(func() error {
		if in.group.open() {
			return errRevisionInterrupted
		}
		return nil
	})
}

// take takes an event. When one cannot be kept the list-watch has to begin anew, and nothing
// that comes behind it is taken: a Reflector logs the error and goes on, and a watcher
// would never know that there was an event.
func (in *reflectorStore) take(event func() error) error {
	if in.lost == nil {
		if in.lost = event(); in.lost != nil {
			in.abort(in.lost)
		}
	}
	return in.lost
}

// item returns what the engine gets of an object.
func (in *reflectorStore) item(raw any) (item dispatch.Item, obj runtime.Object, err error) {
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
func (in *reflectorStore) Add(raw any) error { return in.Update(raw) }

// Update implements ReflectorStore.
func (in *reflectorStore) Update(raw any) error {
	return in.take(func() error { return in.update(raw) })
}

func (in *reflectorStore) update(raw any) error {
	item, obj, err := in.item(raw)
	if err != nil {
		return err
	}
	if item.Value, err = in.form.Keep(obj); err != nil {
		return err
	}
	in.apply(dispatch.Change{Item: item, Attached: &dispatch.Sharing{}})
	return nil
}

// Delete implements ReflectorStore. The object has the revision of the deletion.
func (in *reflectorStore) Delete(raw any) error {
	return in.take(func() error { return in.delete(raw) })
}

func (in *reflectorStore) delete(raw any) error {
	item, _, err := in.item(raw)
	if err != nil {
		return err
	}
	in.apply(dispatch.Change{Item: item, Deleted: true, Attached: &dispatch.Sharing{}})
	return nil
}

// apply writes a change, or holds it back until all of its revision are there.
func (in *reflectorStore) apply(change dispatch.Change) {
	in.write(in.group.before(change.Item.Revision)...)
	if !in.group.hold(change) {
		in.write(change)
	}
}

// write writes all changes of a revision in one step, if there are any.
func (in *reflectorStore) write(changes ...dispatch.Change) {
	if len(changes) == 0 {
		return
	}
	in.engine.Apply(changes...)
	in.metrics.received.Add(float64(len(changes)))
	in.metrics.reached(changes[0].Item.Revision)
	in.renew(len(changes))
}

// renewCheck is how many writes there are between two looks at what flat objects have in common.
const renewCheck = 1000

// renew moves the objects to a new dictionary when most of the old one serves objects that are
// gone. The values of events stay in the old one, which goes with the last of them.
func (in *reflectorStore) renew(writes int) {
	if in.writes += writes; in.writes < renewCheck {
		return
	}
	in.writes = 0
	if in.form.Stale(in.engine.Len()) {
		move := in.form.Renew()
		in.engine.Rewrite(func(i dispatch.Item) *element.Element { return move(i.Value) })
	}
}

// Replace implements ReflectorStore.
func (in *reflectorStore) Replace(list []any, resourceVersion string) error {
	revision, err := in.config.Versioner.ParseResourceVersion(resourceVersion)
	if err != nil {
		return err
	}
	items := make([]dispatch.Item, 0, len(list))
	for n, raw := range list {
		list[n] = nil // a flat object can be collected at once
		item, obj, err := in.item(raw)
		if err != nil {
			return err
		}
		if item.Value, err = in.form.Keep(obj); err != nil {
			return err
		}
		items = append(items, item)
	}
	in.engine.Replace(items, revision)
	in.synced(revision)
	in.renew(renewCheck) // a list may have changed everything
	return nil
}

// Bookmark implements ReflectorBookmarkStore.
func (in *reflectorStore) Bookmark(resourceVersion string) error {
	return in.take(func() error { return in.reached(resourceVersion) })
}

func (in *reflectorStore) reached(resourceVersion string) error {
	revision, err := in.config.Versioner.ParseResourceVersion(resourceVersion)
	if err != nil {
		return err
	}
	in.write(in.group.take()...)
	in.engine.Bookmark(revision)
	in.metrics.reached(revision)
	return nil
}

// Resync implements ReflectorStore; there is nothing to do.
func (in *reflectorStore) Resync() error { return nil }
