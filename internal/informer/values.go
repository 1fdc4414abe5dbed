// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/postings"
)

// Values returns the function with which an engine indexes objects of form. It yields the
// value of a label under postings.LabelName, and the values of a declared field under the name
// with which it was declared.
func Values(form *object.Form) func(o object.Object, name string, yield func(string)) {
	return func(o object.Object, name string, yield func(string)) {
		if key, ok := postings.LabelOf(name); ok {
			if value, ok := o.Label(key); ok {
				yield(value)
			}
			return
		}
		form.Values(o, name, yield)
	}
}
