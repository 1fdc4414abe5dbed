// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package watchcache_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

// lagging is an engine with a clock of its own, and a cursor.
type lagging struct {
	*WithT
	*engine
	t      *testing.T
	now    time.Duration
	cursor *cursor
}

func newLagging(t *testing.T, window int) *lagging {
	l := &lagging{WithT: NewWithT(t), t: t, now: time.Hour}
	l.engine = watchcache.New[thing, string](watchcache.Options[thing]{
		Window: window, Values: words, Now: func() time.Duration { return l.now },
	})
	l.cursor = l.MergingCursor(nil)
	return l
}

// writes writes so many events, a second apart.
func (l *lagging) writes(events int) {
	for range events {
		l.now += time.Second
		l.Apply(put("a", uint64(l.now), "x"))
	}
}

// is compares the lag of the cursor.
func (l *lagging) is(events int, since time.Duration) {
	l.t.Helper()
	behind, age := l.cursor.Lag()
	l.Expect(int(behind)).To(Equal(events), "events")
	l.Expect(age).To(Equal(since))
}

func (l *lagging) read() watchcache.Batch[thing, string] {
	l.t.Helper()
	batch, err := l.cursor.Poll()
	l.Expect(err).NotTo(HaveOccurred())
	return batch
}

// TestALagIsOfWhatIsNotConsumed: of events that wait, and of those in the hands of the reader.
func TestALagIsOfWhatIsNotConsumed(t *testing.T) {
	l := newLagging(t, 8)
	l.now += time.Minute
	l.is(0, 0) // nothing was written
	l.read()
	l.read()
	l.writes(3)
	l.is(3, 2*time.Second)
	l.Expect(l.read().Events).To(HaveLen(3))
	l.now += time.Minute
	l.is(3, time.Minute+2*time.Second)
	l.writes(1)
	l.is(4, time.Minute+3*time.Second)
	l.Expect(l.read().Events).To(HaveLen(1))
	l.is(1, 0)
	l.read()
	l.is(0, 0)
	l.cursor.Close()
	l.writes(5)
	l.is(0, 0)
}

// TestALagGoesOnOutsideTheWindow, and after a list.
func TestALagGoesOnOutsideTheWindow(t *testing.T) {
	l := newLagging(t, 4)
	l.read()
	l.read()
	l.writes(10)
	l.is(10, 9*time.Second)
	l.Expect(l.read().Diff).NotTo(BeNil())
	l.now += time.Second
	l.is(10, 10*time.Second)
	l.writes(1)
	l.Expect(l.read().Events).To(HaveLen(1))
	l.is(1, 0)
	l.read()

	l.now += time.Minute
	l.Replace([]item{{Key: "b", Revision: uint64(l.now)}}, uint64(l.now))
	l.now += time.Second
	l.is(1, time.Second)
	l.Expect(l.read().Diff).NotTo(BeNil())
	l.read()
	l.is(0, 0)
}

// TestASilentChangeIsNoLag: nobody is told of it.
func TestASilentChangeIsNoLag(t *testing.T) {
	l := newLagging(t, 8)
	l.read()
	silent := put("a", 1, "x")
	silent.Silent = true
	l.Apply(silent)
	l.Expect(l.read().Events).To(BeEmpty())
	l.now += time.Minute
	l.is(0, 0)
}

func TestHeldIsWhatCursorsHaveNotRead(t *testing.T) {
	l := newLagging(t, 100)
	l.read()
	l.writes(10)
	l.Expect(l.Held(100).Events).To(Equal(10))
	l.Expect(l.Held(100).Some).To(HaveLen(10))
	some := l.Held(3)
	l.Expect(some.Some).To(HaveLen(3))
	l.Expect(some.Ring).To(BeNumerically(">", 10*8))
	l.Expect(some.Some[2].Position-some.Some[0].Position).To(Equal(uint64(6)), "they are spread evenly")
	l.read()
	l.Expect(l.Held(3).Events).To(BeZero())
	l.Expect(l.Held(3).Some).To(BeEmpty())
}
