// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import "github.com/tarn-dev/tarn/internal/object"

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
