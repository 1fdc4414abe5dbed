// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

// NewHolding returns an Injector whose Holds hold so many bytes at most.
func NewHolding(bytes int) *Injector {
	i := New()
	i.buffer = bytes
	return i
}
