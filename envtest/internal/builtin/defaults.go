// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

// unset gives a field its default value if it has the zero value.
func unset[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// missing gives an optional field its default value if it is nil.
func missing[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

// each calls f with a pointer to every item.
func each[T any](items []T, f func(*T)) {
	for i := range items {
		f(&items[i])
	}
}
