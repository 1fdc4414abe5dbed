// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
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

// OnDemand decides which indexes a Keeper keeps: those that queries ask for. It has no
// goroutine: the queries that call Ask do the work. It is safe for concurrent use.
type OnDemand struct {
	keeper Keeper
	clock  clock.PassiveClock
	fixed  []string

	mu      sync.Mutex           // guards what follows; comes before the Keeper's lock
	asked   map[string]time.Time // for each index that was made, when a query asked last
	checked time.Time            // when cold indexes were looked for last
}

// NewOnDemand returns an OnDemand that adds indexes to keeper and drops them. The indexes with
// the names in fixed are in keeper already, and stay: OnDemand neither adds nor drops them.
func NewOnDemand(keeper Keeper, clock clock.PassiveClock, fixed ...string) *OnDemand {
	return &OnDemand{keeper: keeper, clock: clock, fixed: fixed, asked: map[string]time.Time{}, checked: clock.Now()}
}

// Ask adds the indexes with these names that are missing, and returns when they can be used.
// It also drops the indexes that no query has asked for within [ColdAfter] and, of more than
// [MaxOnDemand], those that were asked for longest ago. Every query calls Ask, also if no index
// would help it, with no names. A query does not wait for an index that another query is having
// built: it does without.
func (d *OnDemand) Ask(names ...string) {
	for _, name := range d.missing(names) {
		d.keeper.AddIndex(name)
		d.mu.Lock()
		if _, ok := d.asked[name]; !ok { // dropped meanwhile
			d.keeper.RemoveIndex(name)
		}
		d.mu.Unlock()
	}
}

// missing notes that names were asked for now, and returns those of them that are to be added.
func (d *OnDemand) missing(names []string) (missing []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.clock.Now()
	if now.Sub(d.checked) >= coldCheck {
		d.dropColdLocked(now)
	}
	for _, name := range names[:min(len(names), MaxOnDemand)] {
		if _, ok := d.asked[name]; ok {
			d.asked[name] = now
		} else if !slices.Contains(d.fixed, name) {
			missing = append(missing, name)
		}
	}
	for _, name := range missing {
		d.makeRoomLocked()
		d.asked[name] = now
	}
	return missing
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
