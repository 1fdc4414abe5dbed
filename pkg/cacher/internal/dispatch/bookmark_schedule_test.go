// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"
)

// dueAfter returns the seconds after which a watcher is due, again and again, when somebody
// looks once a second.
func dueAfter(deadline, until time.Duration) (due []int) {
	clock := clocktesting.NewFakeClock(time.Unix(1000, 700_000_000))
	schedule, plan := newBookmarkSchedule(clock), bookmarkPlan{watcher: &watcher{}}
	if deadline > 0 {
		plan.deadline = clock.Now().Add(deadline)
	}
	schedule.add(plan)
	for after := time.Second; after <= until; after += time.Second {
		clock.Step(time.Second)
		for _, w := range schedule.due() {
			due = append(due, int(after/time.Second))
			schedule.add(w)
		}
	}
	return due
}

func TestBookmarkSchedule(t *testing.T) {
	for name, test := range map[string]struct {
		deadline time.Duration
		due      []int
	}{
		"once a minute":                          {0, []int{60, 120, 180, 240, 300}},
		"and before the deadline":                {150 * time.Second, []int{60, 120, 148}},
		"before the deadline alone":              {30 * time.Second, []int{28}},
		"a fraction of a second is no reason":    {30*time.Second + 999*time.Millisecond, []int{28}},
		"not before a deadline that is too near": {time.Second, nil},
	} {
		t.Run(name, func(t *testing.T) {
			due := dueAfter(test.deadline, 5*time.Minute)
			NewWithT(t).Expect(due).To(Equal(test.due))
		})
	}
}

// TestBookmarkScheduleCatchesUp looks for the first time after an hour.
func TestBookmarkScheduleCatchesUp(t *testing.T) {
	g := NewWithT(t)
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	schedule := newBookmarkSchedule(clock)
	g.Expect(schedule.due()).To(BeEmpty())
	one, two := bookmarkPlan{watcher: &watcher{}}, bookmarkPlan{watcher: &watcher{}}
	schedule.add(one)
	clock.Step(10 * time.Second)
	schedule.add(two)
	clock.Step(time.Hour - 10*time.Second)
	g.Expect(schedule.due()).To(ConsistOf(one, two))
	g.Expect(schedule.due()).To(BeEmpty())
	schedule.add(one)
	clock.Step(59 * time.Second)
	g.Expect(schedule.due()).To(BeEmpty())
	clock.Step(time.Second)
	g.Expect(schedule.due()).To(HaveExactElements(one))
	g.Expect(schedule.slots).To(BeEmpty(), "it keeps nothing that is past")
	g.Expect(schedule.second).To(BeEmpty())
}
