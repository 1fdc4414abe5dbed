// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/tarn-dev/tarn/pkg/index"
	"github.com/tarn-dev/tarn/pkg/object"
	"github.com/tarn-dev/tarn/pkg/watchcache"
)

const (
	// scanWorth is the number of objects up to which looking at all of them is quicker
	// than an index, and an index of a label is not worth its memory.
	scanWorth = 128
	// maxLabelIndexes bounds what lists by ever other labels cost: each index is kept up
	// with every write. The kinds of an operator are listed by a handful of labels.
	maxLabelIndexes = 32
	// coldAfter is how long an index is kept that no list asks for. To build one again
	// costs about as much as one list without it; most reconcilers come back sooner, at
	// the latest with the resync of what they watch.
	coldAfter = 10 * time.Minute
	// coldCheck is how often cold indexes are looked for.
	coldCheck = time.Minute
)

// labelIndexes makes an engine index the labels that lists ask for, and no others. It
// has no goroutine: lists do the work.
type labelIndexes struct {
	engine *watchcache.Engine[object.Object]
	clock  clock.PassiveClock

	mu      sync.Mutex           // guards what follows
	asked   map[string]time.Time // for each label that is indexed, when a list did last
	checked time.Time            // when cold indexes were looked for last
}

func newLabelIndexes(engine *watchcache.Engine[object.Object], clock clock.PassiveClock) *labelIndexes {
	return &labelIndexes{engine: engine, clock: clock, asked: map[string]time.Time{}, checked: clock.Now()}
}

// ask says that a list can use indexes of the labels with these keys, builds those
// that are missing, and drops those that are cold or, if there are too many, were
// asked for longest ago. Every list calls it, also one that asks for none.
func (l *labelIndexes) ask(keys []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	if now.Sub(l.checked) >= coldCheck {
		l.dropColdLocked(now)
	}
	var missing []string
	for _, key := range keys[:min(len(keys), maxLabelIndexes)] {
		if _, ok := l.asked[key]; ok {
			l.asked[key] = now
		} else {
			missing = append(missing, key)
		}
	}
	for _, key := range missing {
		l.makeRoomLocked()
		l.asked[key] = now
		l.engine.AddIndex(index.LabelName(key))
	}
}

func (l *labelIndexes) dropColdLocked(now time.Time) {
	l.checked = now
	for key, at := range l.asked {
		if now.Sub(at) >= coldAfter {
			l.dropLocked(key)
		}
	}
}

// makeRoomLocked drops the index that was asked for longest ago, if another would be
// one too many.
func (l *labelIndexes) makeRoomLocked() {
	if len(l.asked) < maxLabelIndexes {
		return
	}
	oldest := "" // which is no label
	for key, at := range l.asked {
		if oldest == "" || at.Before(l.asked[oldest]) {
			oldest = key
		}
	}
	l.dropLocked(oldest)
}

func (l *labelIndexes) dropLocked(key string) {
	delete(l.asked, key)
	l.engine.RemoveIndex(index.LabelName(key))
}

// LabelIndexes is what the label indexes of a store take.
type LabelIndexes struct {
	// Number of indexes.
	Number int
	// Postings is how many pairs of a value and an object they hold.
	Postings int
	// Bytes is an estimate of the memory that they take.
	Bytes int
}

// LabelIndexes returns what the label indexes take now.
func (s *Engine) LabelIndexes() LabelIndexes { return s.labels.size() }

func (l *labelIndexes) size() LabelIndexes {
	l.mu.Lock()
	defer l.mu.Unlock()
	size, snapshot := LabelIndexes{Number: len(l.asked)}, l.engine.Snapshot()
	for key := range l.asked {
		if postings := snapshot.Index(index.LabelName(key)); postings != nil {
			size.Postings += postings.Len()
			size.Bytes += postings.Bytes()
		}
	}
	return size
}
