// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

import "sync/atomic"

const (
	wearEntries  = 1 << 12 // below this, what could be won is not worth a thought
	wearInterval = 1 << 10 // encodings between two looks
	wearReleased = 8       // no measure counts as low until one in so many live objects was released
)

// wear estimates how much of a dictionary is dead without counting references. The measure is
// entries for each live object. While a store fills, it falls, as objects share what they have
// in common. It rises when entries outlive their objects: because objects are replaced by ones
// with other strings, or because there are fewer objects. When it has doubled since its lowest
// point, about half of the entries serve nobody. Points before a fair share of objects was
// released do not count: nothing can be dead then, and the first objects, which have met none
// that they could share with, would set a mark that the others cannot keep.
//
// The estimate can be wrong when later objects have less in common than earlier ones. Moving to
// a successor then costs one encoding for each object and wins little; the successor takes its
// own measure only when it holds as many objects, so that it does not go wrong the same way.
// Entries that the limits keep out count as well: a full dictionary that no longer fits its
// objects wears out, at most once in as many encodings as there are objects.
type wear struct {
	live    atomic.Int64  // objects encoded and not released
	encoded atomic.Int64  // objects ever encoded
	refused atomic.Uint32 // entries that the limits kept out
	settle  int64         // take no measure before so many are encoded
	lowest  atomic.Uint64 // lowest measure so far, in 1/1024 entries for each object; 0 for none
}

// encode notes one more object.
func (d *Dictionary) encode() {
	d.wear.live.Add(1)
	if d.wear.encoded.Add(1)%wearInterval == 0 {
		d.measure()
	}
}

// measure returns entries for each live object, in 1/1024, and the lowest measure so far.
func (d *Dictionary) measure() (now, lowest uint64) {
	w := &d.wear
	if w.encoded.Load() < max(w.settle, wearInterval) {
		return 0, 0
	}
	entries := uint64(d.published.Load()) + uint64(w.refused.Load())
	now = entries * 1024 / uint64(max(w.live.Load(), 1))
	if live := w.live.Load(); w.encoded.Load()-live < live/wearReleased {
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

// Release says that an Object encoded with this dictionary is no longer kept. It is for the
// estimate of Stale alone: an Object stays readable after it. Objects of other dictionaries are
// ignored.
func (d *Dictionary) Release(o Object) {
	if d != nil && o.Dictionary() == d {
		d.wear.live.Add(-1)
	}
}

// Stale says whether about half of the dictionary or more is thought to serve no live object,
// so that a Successor would pay. It costs next to nothing; asking once in a thousand releases is
// plenty.
func (d *Dictionary) Stale() bool {
	if d.published.Load() < wearEntries {
		return false
	}
	now, lowest := d.measure()
	return now > 2*lowest
}

// Successor returns an empty dictionary with the same limits, to move the live Objects to.
func (d *Dictionary) Successor() *Dictionary {
	next := NewDictionary(d.limits)
	next.wear.settle = d.wear.live.Load()
	return next
}
