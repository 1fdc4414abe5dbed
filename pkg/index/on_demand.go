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
	// MaxOnDemand bounds what queries by ever other indexes cost: each index is kept up
	// with every write. The kinds of an operator are listed by a handful of labels.
	MaxOnDemand = 32
	// ColdAfter is how long an index is kept that no query asks for. To build one again
	// costs about as much as one query without it; most reconcilers come back sooner, at
	// the latest with the resync of what they watch.
	ColdAfter = 10 * time.Minute
	// coldCheck is how often cold indexes are looked for.
	coldCheck = time.Minute
)

// Keeper keeps indexes: an engine does.
type Keeper interface {
	// AddIndex makes it keep the index called name, and returns when that is there. Adding
	// one twice does nothing.
	AddIndex(name string)
	// RemoveIndex drops it.
	RemoveIndex(name string)
}

// OnDemand has a Keeper keep the indexes that queries ask for, and no others. It
// has no goroutine: queries do the work. It is safe for concurrent use.
type OnDemand struct {
	keeper Keeper
	clock  clock.PassiveClock
	fixed  []string

	mu      sync.Mutex           // guards what follows; comes before the Keeper's lock
	asked   map[string]time.Time // for each index that was made, when a query asked last
	checked time.Time            // when cold indexes were looked for last
}

// NewOnDemand returns the indexes on demand of keeper. Those with the names in fixed are
// there anyway: they are neither made nor dropped.
func NewOnDemand(keeper Keeper, clock clock.PassiveClock, fixed ...string) *OnDemand {
	return &OnDemand{keeper: keeper, clock: clock, fixed: fixed, asked: map[string]time.Time{}, checked: clock.Now()}
}

// Ask says that a query can use the indexes with these names, builds those that are
// missing, and drops those that are cold or, if there are too many, were asked for longest
// ago. Every query calls it, also one that asks for none. Others need not wait while one of
// them has an index built: they do without meanwhile.
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

// missing notes that names were asked for, and returns those that are to be built.
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

// Asked returns the names of the indexes that were made, in no order.
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
