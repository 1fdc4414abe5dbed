// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"sync"

	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

// delivery is an event as the handlers get it. They share it, so that nothing is
// made twice.
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

// before returns the object as it was before the event. It refers to the memory of the
// current one wherever the two are the same: most of an object stays as it is.
func (d *delivery) before(event *watchcache.Event[object.Object, *delivery]) (any, error) {
	d.once.Do(func() {
		d.previous, d.err = d.form.MaterializeReusing(event.Previous.Value, event.Item.Value, d.current)
	})
	return d.previous, d.err
}
