// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

// The engine of an informer, and what goes in and out of it. A writer attaches to each event
// the objects that handlers get.
type (
	engine   = watchcache.Engine[object.Object, *delivery]
	event    = watchcache.Event[object.Object, *delivery]
	change   = watchcache.Change[object.Object, *delivery]
	snapshot = watchcache.Snapshot[object.Object]
)

// delivery has the objects of an event as handlers get them. All handlers share it, so that
// no object is made twice. An object is made when the first handler wants it.
type delivery struct {
	form          *object.Form
	given         any // the object that the writer has; of a deletion the last state
	current, past shared
	views         atomic.Pointer[viewed] // of those views for which some handler has asked
}

// shared is an object that is made once for all who want it.
type shared struct {
	once sync.Once
	made any
	err  error
}

func newDelivery(form *object.Form, given any) *delivery {
	return &delivery{form: form, given: given}
}

// errNotMade is what the other handlers get if one handler's attempt to make an object has
// panicked.
var errNotMade = errors.New("to make an object of the event has panicked, for another event handler")

func (s *shared) get(make func() (any, error)) (any, error) {
	s.once.Do(func() {
		s.err = errNotMade // if what follows panics
		s.made, s.err = make()
	})
	return s.made, s.err
}

// after returns the object as it is after the event, and nil if the object was deleted, unless the
// writer has it.
func (d *delivery) after(e *event) (any, error) {
	if d.given != nil || e.Type == watchcache.Deleted {
		return d.given, nil
	}
	return d.current.get(func() (any, error) { return d.form.Materialize(e.Item.Value) })
}

// before returns the object as it was before the event. It refers to the memory of the
// current one wherever the two are the same: most of an object stays as it is.
func (d *delivery) before(e *event) (any, error) {
	return d.past.get(func() (any, error) {
		current, err := d.after(e)
		if err != nil {
			return nil, err
		}
		return d.form.MaterializeReusing(e.Previous.Value, e.Item.Value, current)
	})
}

// viewed has the objects of an event as a view shows them, which its handlers share. They are decoded of what is
// kept, unless the writer has the object.
type viewed struct {
	*delivery
	view          *object.View
	current, past shared
	next          *viewed
}

// as returns the objects of the event as a view shows them.
func (d *delivery) as(view *object.View) objects {
	if view == nil {
		return d
	}
	for {
		first := d.views.Load()
		for v := first; v != nil; v = v.next {
			if v.view == view {
				return v
			}
		}
		v := &viewed{delivery: d, view: view, next: first}
		if d.views.CompareAndSwap(first, v) {
			return v
		}
	}
}

// objects are those of an event, in one representation.
type objects interface {
	after(*event) (any, error)
	before(*event) (any, error)
}

func (v *viewed) after(e *event) (any, error) {
	if v.given == nil && e.Type == watchcache.Deleted {
		return nil, nil
	}
	return v.current.get(func() (any, error) {
		if v.given != nil {
			return v.view.Of(v.given)
		}
		return v.view.Materialize(e.Item.Value)
	})
}

func (v *viewed) before(e *event) (any, error) {
	return v.past.get(func() (any, error) { return v.view.Materialize(e.Previous.Value) })
}
