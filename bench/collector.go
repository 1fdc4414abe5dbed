// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"time"
)

// cycleTick is how often the end of a garbage collection is looked for; nothing
// tells of it.
const cycleTick = 10 * time.Millisecond

// watchCollector measures the CPU that the garbage collector takes a second while
// events come at a steady rate. It counts whole cycles, from the end of one to the
// end of another: with a heap of a gigabyte there is less than one in ten seconds,
// and a shorter look would find nothing or far too much.
func (f *feed) watchCollector(ctx context.Context) error {
	e := f.Effort
	f.counters[0].expect(math.MaxUint64, 0)
	runtime.GC()
	begin, from := time.Now(), readCollections()
	if err := f.ask(ctx, int(2*e.Limit.Seconds()*float64(e.Rate)), e.Rate); err != nil {
		return err
	}
	ticker := time.NewTicker(cycleTick)
	defer ticker.Stop()
	cycles := from.cycles
	for range ticker.C {
		now, took := readCollections(), time.Since(begin)
		switch ended := now.cycles > cycles; {
		case took > e.Limit:
			return fmt.Errorf("%s has not collected its garbage once in %v: raise -windowlimit", f.Cache, e.Limit)
		case ended && took >= e.Window:
			f.Values[collector] = (now.cpu - from.cpu) / took.Seconds()
			return f.checkRate(f.counters[0].seen(), took)
		}
		cycles = now.cycles
	}
	return nil
}

// hiccup is how far behind the rate a busy machine may be when the counting ends.
const hiccup = 250 * time.Millisecond

// checkRate refuses a figure that was measured at another rate than it says.
func (f *feed) checkRate(events int, took time.Duration) error {
	due := float64(f.Effort.Rate) * took.Seconds()
	if most := 0.1*due + float64(f.Effort.Rate)*hiccup.Seconds(); math.Abs(float64(events)-due) > most {
		return fmt.Errorf("%s handled %d events in %v while %.0f were due: the machine is too slow or too busy", f.Cache, events, took, due)
	}
	return nil
}
