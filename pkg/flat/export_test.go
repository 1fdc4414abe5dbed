// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

// FromBytes returns an Object of any bytes, as a damaged one would be.
func FromBytes(data []byte, d *Dictionary) Object { return Object{data: string(data), dict: d} }

// Bytes returns the bytes of an Object.
func Bytes(o Object) []byte { return []byte(o.data) }

// WearEntries is the number of entries below which a dictionary is never stale.
const WearEntries = wearEntries
