// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package postings

import (
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// MaxOnDemand is how many indexes an OnDemand keeps at most. Every write changes each of
	// them, so that queries by ever other labels would make writes ever slower. An operator
	// lists a kind by a handful of labels.
	MaxOnDemand = 32
	// ColdAfter is how long an index stays that no query asks for. To build an index again
	// costs about as much as one query without it. Most reconcilers ask again sooner, at the
	// latest with the resync of what they watch.
	ColdAfter = 10 * time.Minute
	// BuildAfter is how often queries must have looked at all objects, or at as many in part of
	// them, before an index is built that would have spared it. To build an index takes as long as
	// three to six such queries, and makes every write dearer from then on.
	BuildAfter = 2
	// maxWaiting is how many indexes may wait to be worth it. Queries by ever other labels must not
	// take ever more memory.
	maxWaiting = 4 * MaxOnDemand
	// coldCheck is how often cold indexes are looked for.
	coldCheck = time.Minute
)

// Keeper keeps the indexes of one store. The engine of an informer is one.
type Keeper interface {
	// AddIndex builds the index called name, and returns when it can be used. From then on
	// every write keeps it up to date. If the index is there already, AddIndex does nothing.
	AddIndex(name string)
	// RemoveIndex drops the index called name, if it is there.
	RemoveIndex(name string)
}

// Informer is an informer with posting lists: it takes the values of a declared field as they are. Others
// take keys that are made of the values.
type Informer interface {
	// AddField adds an index called name of the values that extract returns, and returns
	// when all objects of the informer are in it.
	AddField(name string, extract client.IndexerFunc) error
}

// OnDemand decides which indexes a Keeper keeps: indexes that queries ask for again and again. It
// has no goroutine: the queries that call Ask do the work. It is safe for concurrent use.
type OnDemand struct {
	keeper Keeper
	clock  clock.PassiveClock
	fixed  []string

	mu      sync.Mutex           // guards what follows; comes before the Keeper's lock
	asked   map[string]time.Time // for each index that was made, when a query asked last
	waiting map[string]waiting   // the indexes that queries asked for and that were not made yet
	checked time.Time            // when cold indexes were looked for last
}

// waiting says what queries without an index have cost.
type waiting struct {
	looked float64   // the sum of the shares
	at     time.Time // when a query asked last
}

// NewOnDemand returns an OnDemand that adds indexes to keeper and drops them. The indexes with
// the names in fixed are in keeper already, and stay: OnDemand neither adds nor drops them.
func NewOnDemand(keeper Keeper, clock clock.PassiveClock, fixed ...string) *OnDemand {
	return &OnDemand{keeper: keeper, clock: clock, fixed: fixed, checked: clock.Now()}
}

// Ask is called by every query, with the names of the indexes that could answer it, or with no
// names if no index would help. Share is the part of all objects at which the query must look
// without an index; 1 stands for all. An index that is missing is added when queries have asked for
// it so often that the shares are more than [BuildAfter] together, and Ask returns when it can be
// used. A query does not wait for an index that another query is having built: it does without.
//
// Ask also drops the indexes that no query has asked for within [ColdAfter]. If more than
// [MaxOnDemand] are left, it drops the ones asked for longest ago.
func (d *OnDemand) Ask(share float64, names ...string) {
	for _, name := range d.missing(share, names) {
		d.keeper.AddIndex(name)
		d.mu.Lock()
		if _, ok := d.asked[name]; !ok { // dropped meanwhile
			d.keeper.RemoveIndex(name)
		}
		d.mu.Unlock()
	}
}

// missing notes that names were asked for now, and returns those of them that are to be added.
func (d *OnDemand) missing(share float64, names []string) (missing []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.clock.Now()
	if now.Sub(d.checked) >= coldCheck {
		d.dropColdLocked(now)
	}
	if d.asked == nil && len(names) > 0 {
		d.asked, d.waiting = map[string]time.Time{}, map[string]waiting{}
	}
	for _, name := range names[:min(len(names), MaxOnDemand)] {
		if _, ok := d.asked[name]; ok {
			d.asked[name] = now
		} else if !slices.Contains(d.fixed, name) && d.worthLocked(name, share, now) {
			missing = append(missing, name)
		}
	}
	for _, name := range missing {
		d.makeRoomLocked()
		d.asked[name] = now
	}
	return missing
}

// worthLocked notes that a query has asked for an index that is missing, and reports whether the
// index is worth its cost now.
func (d *OnDemand) worthLocked(name string, share float64, now time.Time) bool {
	w := waiting{looked: d.waiting[name].looked + share, at: now}
	if w.looked > BuildAfter {
		delete(d.waiting, name)
		return true
	}
	if len(d.waiting) >= maxWaiting {
		clear(d.waiting) // what is asked for often is soon there again
	}
	d.waiting[name] = w
	return false
}

// Asked returns the names of the indexes that Ask has added and not dropped, in no order.
func (d *OnDemand) Asked() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	names := make([]string, 0, len(d.asked))
	for name := range d.asked {
		names = append(names, name)
	}
	return names
}

func (d *OnDemand) dropColdLocked(now time.Time) {
	d.checked = now
	for name, at := range d.asked {
		if now.Sub(at) >= ColdAfter {
			d.dropLocked(name)
		}
	}
	for name, w := range d.waiting {
		if now.Sub(w.at) >= ColdAfter {
			delete(d.waiting, name)
		}
	}
}

// makeRoomLocked drops the index that was asked for longest ago, if another would be
// one too many.
func (d *OnDemand) makeRoomLocked() {
	if len(d.asked) < MaxOnDemand {
		return
	}
	oldest, since := "", time.Time{}
	for name, at := range d.asked {
		if oldest == "" || at.Before(since) {
			oldest, since = name, at
		}
	}
	d.dropLocked(oldest)
}

func (d *OnDemand) dropLocked(name string) {
	delete(d.asked, name)
	d.keeper.RemoveIndex(name)
}
