// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

import "sync/atomic"

const (
	wearEntries  = 1 << 12 // below this, what could be won is not worth a thought
	wearEncoded  = 1 << 10 // no measure is taken before so many objects were encoded
	wearReleased = 8       // no measure counts as low until one in so many live objects was replaced
)

// wear estimates how much of a dictionary is dead without counting references. The measure is
// entries for each live object. While a store fills, it falls, as objects share what they have
// in common. It rises when entries outlive their objects: because objects are replaced by ones
// with other strings, or because there are fewer objects. When it has doubled since its lowest
// point, about half of the entries serve nobody. Points before as many objects were encoded as
// are live and a fair share more do not count: nothing can be dead then, and the first objects,
// which have met none that they could share with, would set a mark that the others cannot keep.
//
// The estimate can be wrong when later objects have less in common than earlier ones. Moving to
// a successor then costs one encoding for each object and wins little; the successor takes its
// own measure only when it holds as many objects, so that it does not go wrong the same way.
// Entries that the limits keep out count as well: a full dictionary that no longer fits its
// objects wears out, at most once in as many encodings as there are objects.
type wear struct {
	encoded atomic.Int64  // objects ever encoded
	refused atomic.Uint32 // entries that the limits kept out
	lowest  atomic.Uint64 // lowest measure so far, in 1/1024 entries for each object; 0 for none
}

// measure returns entries for each live object, in 1/1024, and the lowest measure so far.
func (d *Dictionary) measure(live int64) (now, lowest uint64) {
	w := &d.wear
	encoded := w.encoded.Load()
	if encoded < max(live, wearEncoded) {
		return 0, 0
	}
	entries := uint64(d.published.Load()) + uint64(w.refused.Load())
	now = entries * 1024 / uint64(max(live, 1))
	if encoded-live < live/wearReleased {
		w.lowest.Store(max(now, 1))
		return now, now
	}
	lowest = w.lowest.Load()
	for lowest == 0 || now < lowest {
		if w.lowest.CompareAndSwap(lowest, max(now, 1)) {
			return now, max(now, 1)
		}
		lowest = w.lowest.Load()
	}
	return now, lowest
}

// Stale says whether about half of the dictionary or more is thought to serve no object any more,
// so that a Successor would pay. Live is how many Objects of this dictionary are kept: the store
// knows, where to count what is encoded and released would go wrong by each Object that is made
// and never kept. It costs next to nothing. Ask once in a thousand writes or so: what it says
// rests on what it was told before.
func (d *Dictionary) Stale(live int) bool {
	now, lowest := d.measure(int64(live))
	return now > 2*lowest && d.published.Load() >= wearEntries
}

// Successor returns an empty dictionary with the same limits, to move the live Objects to.
func (d *Dictionary) Successor() *Dictionary { return NewDictionary(d.limits) }
