// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"errors"
	"sync"

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
// no object is made twice.
type delivery struct {
	form     *object.Form
	current  any // of a deletion: the last state
	once     sync.Once
	previous any
	err      error
}

func newDelivery(form *object.Form, current any) *delivery {
	return &delivery{form: form, current: current}
}

// errNotMade is what handlers get after the one whose attempt to make an object has panicked.
var errNotMade = errors.New("to make the object of before the update has panicked, for another event handler")

// before returns the object as it was before the event. It refers to the memory of the
// current one wherever the two are the same: most of an object stays as it is.
func (d *delivery) before(e *event) (any, error) {
	d.once.Do(func() {
		d.err = errNotMade // if what follows panics
		d.previous, d.err = d.form.MaterializeReusing(e.Previous.Value, e.Item.Value, d.current)
	})
	return d.previous, d.err
}
