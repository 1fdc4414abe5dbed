// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"fmt"
	"strings"
)

// Outcome is how a run with a fault ended.
type Outcome string

const (
	// Same is a run after whose steps there is in the server what there is without the fault.
	Same Outcome = "same"
	// Differs is a run that left something else, that a step or Plan.Check has refused, or whose controller did not settle,
	// did not end with its context or ended by itself too often.
	Differs Outcome = "differs"
	// NotReached is a run in which the controller did not come to the point of the fault. It says nothing about the fault. If it
	// has differences, the controller does not do the same each time.
	NotReached Outcome = "not reached"
)

// Result is one run with a fault.
type Result struct {
	// Fault is what went wrong, and where. Plan.Only takes it.
	Fault   string
	Outcome Outcome
	// Differences say what is otherwise than without the fault, after the first step for which something is.
	Differences []string
}

// Report is what a campaign has found.
type Report struct {
	// Requests and Events are how many of the controller were noted in the first run without a fault.
	Requests, Events int
	// Runs are those with a fault, in the order of their points.
	Runs []Result
	// LeftOut is how many were not made: because of Plan.Limit, or because Run had to end.
	LeftOut int
}

// Differing returns the runs that differ. A right controller has none.
func (r *Report) Differing() []Result { return r.with(Differs) }

func (r *Report) with(o Outcome) (found []Result) {
	for _, one := range r.Runs {
		if one.Outcome == o {
			found = append(found, one)
		}
	}
	return found
}

// mostLines bounds what String says of one run.
const mostLines = 10

// String is the report for people: the totals, each run that differs with the words for Plan.Only, and the runs that did not
// reach their fault.
func (r *Report) String() string {
	differs, missed := r.with(Differs), r.with(NotReached)
	b := &strings.Builder{}
	fmt.Fprintf(b, "without a fault: %d requests, %d events\n", r.Requests, r.Events)
	fmt.Fprintf(b, "with a fault: %d runs; %d end the same, %d differ, %d did not reach the fault\n",
		len(r.Runs), len(r.with(Same)), len(differs), len(missed))
	if r.LeftOut > 0 {
		fmt.Fprintf(b, "left out: %d runs\n", r.LeftOut)
	}
	for _, one := range differs {
		one.print(b)
	}
	for _, one := range missed {
		one.print(b)
	}
	return b.String()
}

func (r *Result) print(b *strings.Builder) {
	fmt.Fprintf(b, "\n%s\n  Only: %q\n", strings.ToUpper(string(r.Outcome)), r.Fault)
	for i, line := range r.Differences {
		if i == mostLines {
			fmt.Fprintf(b, "  and %d more differences\n", len(r.Differences)-mostLines)
			return
		}
		fmt.Fprintf(b, "  %s\n", line)
	}
}
