// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/tarn-dev/tarn/bench/internal/source"
)

// trySteady measures events that come one by one, in a process that has had none: with many Pods, each event
// is the first one of its Pod, as with most objects of a cluster.
func trySteady(ctx context.Context, s *subject) error { return newFeed(s).steadily(ctx) }

// steadily measures the CPU time of a second of events that come one by one, and the collector's
// part of it.
func (f *feed) steadily(ctx context.Context) error {
	e := f.Effort
	for _, c := range f.handlers {
		c.expect(0, nil)
	}
	m := e.meter(e.Window, e.Limit)
	if err := f.ask(ctx, source.Updates{Count: int(2 * e.Limit.Seconds() * float64(e.Rate)), Rate: e.Rate}); err != nil {
		return err
	}
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for !m.ended() {
		<-ticker.C
	}
	events := f.handlers[0].seen()
	took, err := m.cost()
	if err != nil {
		return err
	}
	if m.clock == cpuClock {
		f.Values[steady+f.suffix] = took.total / took.wall.Seconds()
	}
	f.Values[collector+f.suffix] = took.collector / took.wall.Seconds()
	return f.checkRate(events, took.wall)
}

// checkRate refuses a figure that was measured at another rate than it says.
func (f *feed) checkRate(events int, took time.Duration) error {
	due := float64(f.Effort.Rate) * took.Seconds()
	if most := 0.1*due + float64(f.Effort.Rate)*f.Effort.Lag.Seconds(); math.Abs(float64(events)-due) > most {
		return fmt.Errorf("%s handled %d events in %v while %.0f were due: the machine is too slow or too busy", f.Cache, events, took, due)
	}
	return nil
}
