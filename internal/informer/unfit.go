// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/tarn-dev/tarn/internal/object"
)

// update tells the handler of an update. If the object does not fit any more, the handler is not told, and the
// error is returned. When the object fits again, the handler gets the update from the state that it was told of
// last. client-go's informer does the same: it goes on when all objects fit.
func (r *registration) update(event *event, shared objects) error {
	previous, unknown := shared.before(event)
	if unknown != nil {
		previous = r.unfit.last(r.informer.form, r.view, event.Item.Key)
	}
	current, err := shared.after(event)
	switch {
	case err != nil && unknown == nil:
		r.unfit.add(event.Item.Key, event.Previous.Value)
		return err
	case err != nil:
		return err
	}
	r.unfit.remove(event.Item.Key)
	if previous == nil {
		r.add(current)
		return nil
	}
	begin := r.calls.begin()
	r.handler.OnUpdate(previous, current)
	r.calls.end(begin)
	return nil
}

// delete tells the handler of a deletion, unless it was never told of the object, because that has never fitted.
func (r *registration) delete(event *event, shared objects) {
	defer r.unfit.remove(event.Item.Key)
	last, err := shared.after(event)
	if last == nil || err != nil {
		previous, err := shared.before(event)
		if err != nil {
			previous = r.unfit.last(r.informer.form, r.view, event.Item.Key)
		}
		if previous == nil {
			return
		}
		last = toolscache.DeletedFinalStateUnknown{Key: object.StoreKey(event.Item.Key), Obj: previous}
	}
	begin := r.calls.begin()
	r.handler.OnDelete(last)
	r.calls.end(begin)
}

// unfit has, for each object that does not fit the Go type of a view now, the state that the handler was told of
// last. These are as many objects as do not fit, at most. Only the handler's goroutine uses it.
type unfit map[string]object.Object // by the key in the engine

func (u *unfit) add(key string, told object.Object) {
	if *u == nil {
		*u = unfit{}
	}
	(*u)[key] = told
}

func (u *unfit) remove(key string) { delete(*u, key) }

// last returns the object as it was when the handler was told of it, or nil if it was not.
func (u *unfit) last(form *object.Form, view *object.View, key string) any {
	told, ok := (*u)[key]
	if !ok {
		return nil
	}
	var (
		obj any
		err error
	)
	if view == nil {
		obj, err = form.Materialize(told)
	} else {
		obj, err = view.Materialize(told)
	}
	if err != nil {
		return nil
	}
	return obj
}
