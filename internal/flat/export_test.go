// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

// FromBytes returns an Object of any bytes, as a damaged one would be.
func FromBytes(data []byte, d *Dictionary, parts ...string) Object {
	return Object{data: string(data), annex: newAnnex(d, parts)}
}

// Bytes returns the bytes of an Object.
func Bytes(o Object) []byte { return []byte(o.data) }

// Parts returns the parts of a large Object.
func Parts(o Object) []string { return o.parts() }

// WearEntries is the number of entries below which a dictionary is never stale.
const WearEntries = wearEntries
