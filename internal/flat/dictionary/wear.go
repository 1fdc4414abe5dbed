// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package dictionary

import "sync/atomic"

const (
	Lasting      = 1 << 12 // entries: a smaller dictionary is never stale, since little could be won
	wearEncoded  = 1 << 10 // no measure is taken before so many objects were encoded
	wearReleased = 8       // no measure counts as low until one in so many live objects was replaced
)

// wear estimates how much of a dictionary is no longer used, without counting references. The
// measure is the number of entries for each live object. It falls while a store fills, because
// objects share what they have in common. It rises when entries outlive their objects: when objects
// are replaced by objects with other strings, or when there are fewer objects. When the measure has
// doubled since its lowest value, about half of the entries are unused. A low value counts only
// after as many objects were encoded as are live, and a fair share more. Before that, no entry can
// be unused; and the first objects, which have met few others to share with, would set a lowest
// value that later objects cannot reach.
//
// The estimate is wrong if later objects have less in common than earlier ones. A change to a
// successor then costs one encoding for each object and gains little. The successor takes its own
// measure only when it holds as many objects, so it does not make the same mistake. Entries that
// the limits kept out count as well: a full dictionary that no longer fits its objects wears out,
// at most once in as many encodings as there are objects.
type wear struct {
	encoded atomic.Int64  // objects ever encoded
	refused atomic.Uint32 // entries that the limits kept out
	lowest  atomic.Uint64 // lowest measure so far, in 1/1024 entries for each object; 0 for none
}

// measure returns the number of entries for each live object, in units of 1/1024, and the lowest
// such number so far. Entries is how many the dictionary holds.
func (w *wear) measure(entries uint64, live int64) (now, lowest uint64) {
	encoded := w.encoded.Load()
	if encoded < max(live, wearEncoded) {
		return 0, 0
	}
	now = (entries + uint64(w.refused.Load())) * 1024 / uint64(max(live, 1))
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
