// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader

// Uncounted returns a reader of the same store that counts nothing.
func (r *CacheReader) Uncounted() *CacheReader {
	other := *r
	other.reads = nil
	return &other
}

// CountGet counts a Get that does nothing.
func (r *CacheReader) CountGet() { r.reads.Got(r.reads.Get()) }
