// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/envtest/faults"
)

// controllerUser is whose requests and watches have faults.
const controllerUser = "campaign:controller"

// run is one run of the controller, in an environment of its own.
type run struct {
	plan     *Plan
	fault    *fault // nil without one
	activity *activity
	trace    *trace
	held     *faults.Hold // what holds back an event, or the answer to a write
	config   *rest.Config // of the controller
	gone     chan error   // has the error of a controller that is not started again
}

// ending is what a run has led to.
type ending struct {
	states  []state // after each step
	problem error   // why there are no more of them, or what Check says
	points  []point
	hit     bool // the fault happened
}

// perform makes one run. The error is that of ctx, or of the environment: such a run says nothing about the controller.
func (p *Plan) perform(ctx context.Context, f *fault) (_ *ending, err error) {
	a := &activity{}
	r := &run{plan: p, fault: f, activity: a, trace: newTrace(a, f), gone: make(chan error, 1)}
	injector, opts := faults.New(), p.Options
	opts.Faults = injector
	env := envtest.New(opts)
	if err := env.Start(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, env.Stop()) }()
	if r.config, err = env.AddUser(controllerUser, "system:masters"); err != nil {
		return nil, err
	}
	reader, err := newStateReader(p, env.Config())
	if err != nil {
		return nil, err
	}
	admin, err := client.New(env.Config(), client.Options{Scheme: p.Scheme})
	if err != nil {
		return nil, err
	}
	if r.held, err = arrange(injector, r.trace); err != nil {
		return nil, err
	}
	e := r.withController(ctx, func(ctx context.Context) *ending { return r.steps(ctx, admin, reader) })
	e.points, e.hit = r.trace.all()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return e, nil
}

// withController runs the controller beside what f does, and returns when both have ended.
func (r *run) withController(ctx context.Context, f func(context.Context) *ending) *ending {
	life, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- r.operate(life) }()
	e := f(ctx)
	stop()
	if err := <-ended; err != nil && e.problem == nil {
		e.problem = fmt.Errorf("at the end, the controller %w", err)
	}
	return e
}

// steps lets the users do what they do.
func (r *run) steps(ctx context.Context, admin client.Client, reader *stateReader) *ending {
	e := &ending{}
	if e.problem = r.settle(ctx); e.problem != nil {
		e.problem = fmt.Errorf("at its start, the controller %w", e.problem)
		return e
	}
	for _, s := range r.plan.Steps {
		if err := r.do(ctx, s.Do, admin); err != nil {
			e.problem = fmt.Errorf("step %q: %w", s.Name, err)
			return e
		}
		if err := r.settle(ctx); err != nil {
			e.problem = fmt.Errorf("after step %q, the controller %w", s.Name, err)
			return e
		}
		now, err := reader.state(ctx)
		if err != nil {
			e.problem = err
			return e
		}
		e.states = append(e.states, now)
	}
	if r.plan.Check != nil {
		if err := r.do(ctx, r.plan.Check, admin); err != nil {
			e.problem = fmt.Errorf("check: %w", err)
		}
	}
	return e
}

// do calls a function of the plan, which has so much time.
func (r *run) do(ctx context.Context, f func(context.Context, client.Client) error, admin client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, r.plan.Patience)
	defer cancel()
	return f(ctx, admin)
}

// restarts is how often a controller is started again that has ended by itself.
const restarts = 3

// operate runs the controller until ctx ends. The error says why it does not run until then.
func (r *run) operate(ctx context.Context) error {
	crash := r.crash(ctx)
	for again := 0; ; {
		asked, err := r.live(ctx, crash)
		switch {
		case errors.Is(err, errStays):
			r.gone <- err
			return err
		case ctx.Err() != nil:
			return nil
		case asked:
			crash = nil
		case r.fault != nil && again < restarts:
			again++
		default:
			err = fmt.Errorf("has ended by itself: %w", err)
			r.gone <- err
			return err
		}
	}
}

// crash returns what is closed when the fault ends the controller: nil if it does not.
func (r *run) crash(ctx context.Context) <-chan struct{} {
	if r.fault == nil || r.fault.kind != restart {
		return nil
	}
	now := make(chan struct{})
	go func() {
		if r.held.Wait(ctx, 1) == nil {
			close(now)
		}
	}()
	return now
}

var (
	errStays = errors.New("does not end with its context")
	errNil   = errors.New("it returned no error")
)

// live runs the controller once: until it ends by itself, by ctx, or by crash; asked reports the last. The error is nil if it had
// to end.
func (r *run) live(ctx context.Context, crash <-chan struct{}) (asked bool, err error) {
	life, end := context.WithCancel(ctx)
	defer end()
	config := rest.CopyConfig(r.config)
	config.Wrap(r.activity.wrap)
	r.activity.expect()
	ended := make(chan error, 1)
	go func() { ended <- r.plan.Controller(life, config) }()
	select {
	case err := <-ended:
		if ctx.Err() != nil {
			return false, nil
		}
		if err == nil {
			err = errNil
		}
		return false, err
	case <-crash:
		asked = true
	case <-ctx.Done():
	}
	end()
	patience := time.NewTimer(r.plan.Patience)
	defer patience.Stop()
	select {
	case <-ended:
		return asked, nil
	case <-patience.C:
		return asked, errStays
	}
}

const (
	// ticks are the parts of the quiet time. A machine that stands still for a while lets one of them pass, and not all.
	ticks = 10
	// longer is how many quiet times a controller has for what it is expected to ask: client-go waits for up to 1.6 s before it
	// lists again.
	longer = 10
	// staleRequests is how many requests a controller makes at most while its cache is stale. A controller that repeats a
	// failing request pauses longer each time, and would seem to have settled.
	staleRequests = 4
)

// settle waits until the controller has nothing to do. If the fault keeps an event back, it lets it go then. The error says of the
// controller what it did.
func (r *run) settle(ctx context.Context) error {
	tick, limit := time.NewTicker(r.plan.Quiet/ticks), time.NewTimer(r.plan.Patience)
	defer tick.Stop()
	defer limit.Stop()
	before, _, _ := r.activity.now()
	for quiet := 0; ; {
		select {
		case <-tick.C:
		case err := <-r.gone:
			return err
		case <-limit.C:
			return fmt.Errorf("did not settle within %s, %s", r.plan.Patience, r.trace.last())
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		count, busy, expected := r.activity.now()
		if busy || count != before {
			quiet, before = 0, count
		} else {
			quiet++
		}
		enough := quiet >= ticks && (!expected || quiet >= ticks*longer)
		switch {
		case r.refresh(enough):
			quiet = 0
		case enough:
			return nil
		}
	}
}

// refresh lets the event go that makes the cache stale, if there is one and it was kept for long enough.
func (r *run) refresh(settled bool) bool {
	if r.fault == nil || r.fault.kind != late || len(r.held.Held()) == 0 {
		return false
	}
	if !settled && r.trace.sinceHit() < staleRequests {
		return false
	}
	return len(r.held.Release(1)) > 0
}
