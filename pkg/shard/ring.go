// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/tarn-dev/tarn/internal/signal"
)

// Ring is the part of one replica in a ring of replicas that share keys. It is a Runnable of a manager. All methods are safe for
// concurrent use.
type Ring struct {
	options *Options
	leases  coordinationclient.LeaseInterface
	logger  logr.Logger
	clock   clock
	started atomic.Bool
	changed signal.Broadcast // who owns a key, or what the Lease is to say, may have changed
	mu      sync.Mutex       // guards what follows
	view    *view
	terms   terms
}

// clock is the clock of this machine.
type clock struct {
	now  func() time.Time
	span func(time.Duration) time.Duration // how long timers run for a duration by this clock
}

// New returns the ring of a replica, which does nothing before [Ring.Start]. It returns an error if options are missing, or contradict
// each other.
func New(o Options) (*Ring, error) {
	options, err := o.complete()
	if err != nil {
		return nil, fmt.Errorf("cannot make a member of the ring %q: %w", o.Ring, err)
	}
	return &Ring{
		options: options,
		leases:  options.Client.Leases(options.Namespace),
		logger:  options.Logger.WithValues("ring", options.Ring, "member", options.Member),
		clock:   clock{time.Now, func(d time.Duration) time.Duration { return d }},
		view:    &view{name: options.leaseName(), cause: errNotStarted, holds: map[string][]*hold{}, leases: map[string]*member{}, members: map[string]*member{}},
	}, nil
}

// NeedLeaderElection tells a manager that every replica runs its Ring.
func (r *Ring) NeedLeaderElection() bool { return false }

// Start joins the ring, and stays in it until ctx ends. Without its Lease the replica loses its keys, and joins again. When ctx ends, no
// work begins any more, keys go to others as soon as their work has ended, and the Lease is deleted. Start returns nil then, or
// an error if work goes on after its context was cancelled: others get those keys when the Lease expires. It returns an error at
// once if the Lease of its name belongs to something else. It can be called once.
func (r *Ring) Start(ctx context.Context) error {
	if r.started.Swap(true) {
		return fmt.Errorf("the ring %s was started before", r.options.Ring)
	}
	for {
		own, deadline, err := r.enter(ctx)
		if own == nil {
			return err
		}
		r.update(func(v *view, now time.Time) []*hold { v.enter(own, now, deadline); return nil })
		if err := r.live(ctx, own); ctx.Err() != nil {
			return err
		}
	}
}

// enter acquires the Lease. It follows those of others if that takes long: nobody else may know of them.
func (r *Ring) enter(ctx context.Context) (own *coordinationv1.Lease, deadline time.Time, err error) {
	following, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		r.sleep(following, r.clock.now().Add(r.options.RetryPeriod), nil)
		r.watch(following)
	})
	defer watching.Wait()
	defer stop()
	return r.acquire(ctx)
}

// live runs the life of a member, which ends with ctx, or with its Lease.
func (r *Ring) live(ctx context.Context, own *coordinationv1.Lease) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var tasks sync.WaitGroup
	tasks.Go(func() { r.watch(life) })
	tasks.Go(func() { r.expire(life) })
	tasks.Go(func() { own = r.renew(life, own); end() }) // ends by itself if the Lease is lost
	var err error
	select {
	case <-life.Done():
	case <-ctx.Done():
		err = r.drain(life)
	}
	end()
	tasks.Wait()
	r.update(func(v *view, _ time.Time) []*hold {
		if v.self == nil {
			own = nil
		}
		v.lose(errLeft)
		return nil
	})
	if own != nil && err == nil {
		r.release(context.WithoutCancel(ctx), own)
	}
	return err
}

// drain waits until all work has ended. It cancels work after DrainTimeout, and returns an error if that work goes on.
func (r *Ring) drain(ctx context.Context) error {
	r.update(func(v *view, _ time.Time) []*hold { v.leaving = true; v.version++; return nil })
	idle := func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.view.holds) == 0
	}
	for _, patience := range []time.Duration{r.options.DrainTimeout, r.options.LeaseDuration - r.options.RenewDeadline} {
		waiting, stop := r.within(ctx, patience)
		err := r.changed.Until(waiting, idle)
		if stop(); err == nil || ctx.Err() != nil {
			return nil // done, or lost with the Lease
		}
		r.update(func(v *view, _ time.Time) []*hold { return v.all() })
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Errorf("member %s leaves the ring %s with work on %d keys that goes on after it was cancelled", r.options.Member, r.options.Ring, len(r.view.holds))
}

// update calls f on the view, and cancels the holds that f returns, or all if the Lease is lost. It wakes all waiters if something has
// changed. Holds are cancelled without the lock, because contexts may be the user's own.
func (r *Ring) update(f func(v *view, now time.Time) (cancelled []*hold)) {
	r.mu.Lock()
	before, now := r.view.version, r.clock.now()
	cancelled := f(r.view, now)
	if r.view.self == nil {
		cancelled = r.view.all()
	}
	r.view.admit()
	changed := r.view.version != before || len(cancelled) > 0
	if changed {
		r.terms.follow(r.view)
	}
	causes := make([]error, len(cancelled))
	for i, h := range cancelled {
		h.over, causes[i] = true, r.notOwned(h.key, h.hash, now)
	}
	r.mu.Unlock()
	for i, h := range cancelled {
		h.cancel(causes[i])
	}
	if changed {
		r.changed.Notify()
	}
}

// Changed returns a channel that is closed at the next change of what [Ring.Owner], [Ring.Check], [Ring.Term] and [Ring.Members] may answer. To
// miss no change, call it before them.
func (r *Ring) Changed() <-chan struct{} { return r.changed.Wait() }

// Member returns the name of this replica.
func (r *Ring) Member() string { return r.options.Member }

// Owner returns the name of the member that is to work on a key, or "" if no member is known. The owner may have to wait until the
// previous one gives the key up: [Ring.Check] says so.
func (r *Ring) Owner(key string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ownerOf(hashOf(key))
}

// ownerOf is Owner under the lock.
func (r *Ring) ownerOf(hash uint64) string {
	if m := r.view.winner(hash); m != nil {
		return r.nameOf(m)
	}
	return ""
}

func (r *Ring) nameOf(m *member) string { return strings.TrimPrefix(m.name, r.options.Ring+"-") }

// Members returns the holderIdentities of the members of the ring, by their names, as this replica knows them. A member has another
// holderIdentity each time it joins. The map is the caller's; it is empty while the replica is not in the ring.
func (r *Ring) Members() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	holders := map[string]string{}
	if self := r.view.self; self != nil {
		holders[r.nameOf(self)] = *self.lease.Spec.HolderIdentity
		for _, m := range r.view.members {
			if name := r.nameOf(m); holders[name] == "" || !m.ghost {
				holders[name] = *m.lease.Spec.HolderIdentity
			}
		}
	}
	return holders
}

// within returns a context that ends after a duration by the clock of this machine.
func (r *Ring) within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, r.clock.span(d))
}

// sleep waits until a time, or until ctx ends or changed is closed. A nil channel is never closed.
func (r *Ring) sleep(ctx context.Context, until time.Time, changed <-chan struct{}) {
	timer := time.NewTimer(r.clock.span(until.Sub(r.clock.now())))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
	case <-ctx.Done():
	}
}
