// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package shard

// hashOf returns a hash of a string, which is the same in every process: FNV-1a, mixed.
func hashOf(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return mix(h)
}

// mix lets each bit of x change half of all bits: the finalizer of SplitMix64.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// beats reports whether a rather than b gets a key, which is given by its hash. Of any members, exactly one beats all others:
// equal scores are settled by names, and those by identities.
func beats(a, b *member, key uint64) bool {
	if x, y := mix(a.hash^key), mix(b.hash^key); x != y {
		return x > y
	}
	if a.name != b.name {
		return a.name > b.name
	}
	return a.id > b.id
}
