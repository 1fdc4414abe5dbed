// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
)

// Run makes a campaign: two runs without a fault, which must end the same, and one for each fault that can happen at a request or
// an event of the first. The report is the caller's own.
//
// The error is about the plan, about the runs without a fault, about an environment, or that of ctx. With an error of an
// environment or of ctx, the report has the runs that have ended until then; otherwise it is nil. A run with a fault that differs
// is no error: see Report.Differing. When Run returns, all environments and controllers have ended, but for controllers that did
// not end with their context.
func Run(ctx context.Context, plan Plan) (*Report, error) {
	p, err := plan.completed()
	if err != nil {
		return nil, err
	}
	reference, err := p.reference(ctx)
	if err != nil {
		return nil, fmt.Errorf("run the controller without a fault: %w", err)
	}
	all, err := p.chosen(faultsAt(reference.points))
	if err != nil {
		return nil, err
	}
	chosen := spread(all, p.Limit)
	results, err := p.performAll(ctx, chosen, reference)
	report := &Report{LeftOut: len(all) - len(chosen)}
	for _, point := range reference.points {
		if point.event() {
			report.Events++
		} else {
			report.Requests++
		}
	}
	for _, r := range results {
		if r != nil {
			report.Runs = append(report.Runs, *r)
		} else {
			report.LeftOut++
		}
	}
	if err != nil {
		return report, fmt.Errorf("run the controller with faults: %w", err)
	}
	return report, nil
}

// reference makes the runs without a fault.
func (p *Plan) reference(ctx context.Context) (*ending, error) {
	var both [2]*ending
	group, running := errgroup.WithContext(ctx)
	group.SetLimit(p.Parallel)
	for i := range both {
		group.Go(func() (err error) {
			both[i], err = p.perform(running, nil)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	first, second := both[0], both[1]
	if err := errors.Join(first.problem, second.problem); err != nil {
		return nil, err
	}
	if d := first.differences(second, p.Steps); len(d) > 0 {
		return nil, fmt.Errorf("two runs end differently: let Plan.Normalize remove what is otherwise each time, or Plan.Quiet be longer than the pauses of the controller:\n\t%s",
			strings.Join(d, "\n\t"))
	}
	if len(first.points) == mostPoints {
		return nil, fmt.Errorf("it makes %d requests or more: that is too much for a campaign", mostPoints)
	}
	return first, nil
}

// chosen returns the faults that the plan asks for.
func (p *Plan) chosen(all []*fault) ([]*fault, error) {
	if p.Only == "" {
		return all, nil
	}
	for _, f := range all {
		if f.String() == p.Only {
			return []*fault{f}, nil
		}
	}
	return nil, fmt.Errorf("campaign.Plan.Only: there is no %q in this campaign, of %d faults", p.Only, len(all))
}

// spread returns limit of them at most, evenly from the first to the last.
func spread(all []*fault, limit int) []*fault {
	if len(all) <= limit {
		return all
	}
	some := make([]*fault, limit)
	for i := range some {
		some[i] = all[i*len(all)/limit]
	}
	return some
}

// performAll makes the runs with faults. A run that has not ended is nil in the result.
func (p *Plan) performAll(ctx context.Context, chosen []*fault, reference *ending) ([]*Result, error) {
	results := make([]*Result, len(chosen))
	group, running := errgroup.WithContext(ctx)
	group.SetLimit(p.Parallel)
	for i, f := range chosen {
		if running.Err() != nil {
			break
		}
		group.Go(func() error {
			e, err := p.perform(running, f)
			if err != nil {
				return fmt.Errorf("%s: %w", f, err)
			}
			results[i] = p.resultOf(f, reference, e)
			return nil
		})
	}
	err := group.Wait()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return results, err
}

func (p *Plan) resultOf(f *fault, reference, e *ending) *Result {
	r := &Result{Fault: f.String(), Differences: reference.differences(e, p.Steps)}
	if e.problem != nil {
		r.Differences = append(r.Differences, e.problem.Error())
	}
	switch {
	case !e.hit:
		r.Outcome = NotReached
	case len(r.Differences) > 0:
		r.Outcome = Differs
	default:
		r.Outcome = Same
	}
	return r
}

// differences says how another run has ended otherwise, after the first step at which it did.
func (e *ending) differences(other *ending, steps []Step) []string {
	for i, s := range e.states[:min(len(e.states), len(other.states))] {
		if d := s.differences(other.states[i]); len(d) > 0 {
			return append([]string{fmt.Sprintf("after step %q:", steps[i].Name)}, d...)
		}
	}
	return nil
}
