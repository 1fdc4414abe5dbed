// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package kind

// Unset gives a field its default value if it has the zero value.
func Unset[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Missing gives an optional field its default value if it is nil.
func Missing[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

// Each calls f with a pointer to every item.
func Each[T any](items []T, f func(*T)) {
	for i := range items {
		f(&items[i])
	}
}
