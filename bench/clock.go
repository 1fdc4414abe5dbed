// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"
)

// The clocks.
const (
	wallClock = "wall"
	cpuClock  = "cpu"
)

func clocks() []string { return []string{wallClock, cpuClock} }

// instant is a moment by both clocks.
type instant struct {
	wall time.Time
	cpu  time.Duration
}

func now() instant {
	cpu, _ := processCPU() // seconds refuses the clock where it is unknown
	return instant{wall: time.Now(), cpu: cpu}
}

// seconds returns how long it is from begin to end by the clock of that name.
func seconds(clock string, begin, end instant) (float64, error) {
	if clock != cpuClock {
		return end.wall.Sub(begin.wall).Seconds(), nil
	}
	if _, known := processCPU(); !known {
		return 0, fmt.Errorf("-clock=%s: this system does not say how much CPU time a process has taken", cpuClock)
	}
	return (end.cpu - begin.cpu).Seconds(), nil
}
