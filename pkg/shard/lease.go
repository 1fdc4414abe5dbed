// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"context"
	"errors"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// lostError says that the Lease is no longer ours.
type lostError struct{ error }

// acquire takes the Lease of this member, and returns it with its deadline. It returns nil if ctx ends before, and an error if it may not
// have it.
func (r *Ring) acquire(ctx context.Context) (own *coordinationv1.Lease, deadline time.Time, err error) {
	holder, waitsFor := newIdentity(r.options.Member), ""
	var other *member
	for ctx.Err() == nil {
		sent := r.clock.now()
		found, err := r.get(ctx)
		switch {
		case apierrors.IsNotFound(err):
			found, err = r.create(ctx, holder)
		case err != nil:
		case r.options.checkRing(found) != nil:
			return nil, deadline, r.options.checkRing(found)
		default:
			if other == nil || other.lease.UID != found.UID || other.id != idOf(found) {
				other = newMember(found, r.clock.now())
			}
			other.set(found, r.clock.now())
			free := other.id == "" || ptr.Deref(found.Spec.HolderIdentity, "") == holder || !other.overAt(r.options.LeaseDuration).After(r.clock.now())
			if !free && waitsFor != other.id {
				waitsFor = other.id
				r.logger.Info("Waiting for the Lease of this member, which another process has", "lease", found.Name, "holder", found.Spec.HolderIdentity)
			}
			if !free {
				r.sleep(ctx, sent.Add(r.options.RetryPeriod), nil)
				continue
			}
			sent = r.clock.now()
			found, err = r.put(ctx, found, func(l *coordinationv1.Lease) { r.options.fill(l, holder, time.Now()) })
		}
		if err == nil {
			return found, sent.Add(r.options.RenewDeadline), nil
		}
		r.logger.Error(err, "Cannot take the Lease of this member")
		r.sleep(ctx, r.clock.now().Add(r.options.RetryPeriod), nil)
	}
	return nil, deadline, nil
}

// renew renews the Lease each period, and at once when there is something new to say, until ctx ends or the Lease is lost. It
// cancels the work that must stop. It returns the Lease as it was last written.
func (r *Ring) renew(ctx context.Context, own *coordinationv1.Lease) *coordinationv1.Lease {
	next, failed, said := r.clock.now().Add(r.options.RetryPeriod), false, promise{}
	for ctx.Err() == nil {
		changed := r.changed.Wait()
		say, until, lost := r.tick()
		if lost {
			return own
		}
		now := r.clock.now()
		if now.Before(next) && (failed || say == said) {
			if next.Before(until) {
				until = next
			}
			r.sleep(ctx, until, changed)
			continue
		}
		patience := r.options.RenewDeadline / 2
		if until.After(now) { // in time: no request outlasts the deadline
			patience = min(patience, until.Sub(now))
		}
		attempt, stop := r.within(ctx, patience)
		written, err := r.write(attempt, own, func(l *coordinationv1.Lease) {
			r.options.fill(l, *own.Spec.HolderIdentity, time.Now())
			say.writeTo(l)
		})
		stop()
		lostCause := lostError{}
		lost = errors.As(err, &lostCause)
		r.update(func(v *view, _ time.Time) []*hold {
			switch {
			case err == nil:
				v.renewed(now.Add(r.options.RenewDeadline))
			case lost:
				v.lose(lostCause.error)
			default:
				v.cause = err
			}
			return nil
		})
		if failed = err != nil; failed {
			r.logger.Error(err, "Cannot renew the Lease")
		} else {
			own, said = written, say
		}
		next = now.Add(r.options.RetryPeriod)
	}
	return own
}

// tick lets the member join, and cancels the work that must stop. It returns what the Lease is to say, and when it is to be called again at
// the latest.
func (r *Ring) tick() (say promise, until time.Time, lost bool) {
	r.update(func(v *view, now time.Time) []*hold {
		v.join(now.Add(-r.options.RetryPeriod))
		say, lost = v.promise(), v.self == nil
		until = now.Add(r.options.RetryPeriod)
		switch {
		case lost:
			return nil
		case v.inTime(now):
			until = v.deadline
			return v.overdue(now, r.options.DrainTimeout)
		case !v.late:
			v.late = true
			v.version++
		}
		return v.all()
	})
	return say, until, lost
}

// write changes our Lease. It returns a lostError if it is no longer ours. A conflict may come from a write whose answer was lost.
func (r *Ring) write(ctx context.Context, own *coordinationv1.Lease, change func(*coordinationv1.Lease)) (*coordinationv1.Lease, error) {
	written, err := r.put(ctx, own, change)
	if !apierrors.IsConflict(err) {
		if apierrors.IsNotFound(err) {
			err = lostError{errGone}
		}
		return written, err
	}
	now, err := r.get(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return nil, lostError{errGone}
	case err != nil:
		return nil, err
	case now.UID != own.UID || idOf(now) != idOf(own):
		return nil, lostError{errTaken(now)}
	}
	return r.put(ctx, now, change)
}

// release says that nobody has our Lease, and deletes it. If that fails, others find the Lease expired.
func (r *Ring) release(ctx context.Context, own *coordinationv1.Lease) {
	ctx, stop := r.within(ctx, r.options.RenewDeadline)
	defer stop()
	for ctx.Err() == nil {
		written, err := r.write(ctx, own, setFree)
		if err == nil {
			err = r.remove(ctx, written)
		}
		if err == nil || errors.As(err, &lostError{}) {
			return
		}
		r.logger.Error(err, "Cannot delete the Lease")
		r.sleep(ctx, r.clock.now().Add(r.options.RetryPeriod), nil)
	}
}

func setFree(l *coordinationv1.Lease) { l.Spec.HolderIdentity = nil }

// expire releases the Leases of others that have expired, and deletes those that have been free for as long, until ctx ends. Each
// request names the version that has been there for so long: if it succeeds, the holder has not renewed the Lease since.
func (r *Ring) expire(ctx context.Context) {
	for ctx.Err() == nil {
		var expired []*coordinationv1.Lease
		var next time.Time
		r.update(func(v *view, now time.Time) []*hold {
			expired, next = v.expired(now, r.options.LeaseDuration)
			if soon := now.Add(r.options.RetryPeriod); soon.Before(next) {
				next = soon
			}
			return nil
		})
		for _, l := range expired {
			var err error
			if idOf(l) == "" {
				err = r.remove(ctx, l)
			} else {
				r.logger.Info("Releasing a Lease that has expired", "lease", l.Name, "holder", *l.Spec.HolderIdentity)
				_, err = r.put(ctx, l, setFree)
			}
			if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				r.logger.Error(err, "Cannot release a Lease that has expired", "lease", l.Name)
			}
		}
		r.sleep(ctx, next, nil)
	}
}

// get, create, put and remove are single requests.
func (r *Ring) get(ctx context.Context) (*coordinationv1.Lease, error) {
	ctx, stop := r.within(ctx, r.options.RenewDeadline/2)
	defer stop()
	return r.leases.Get(ctx, r.options.leaseName(), metav1.GetOptions{})
}

func (r *Ring) create(ctx context.Context, holder string) (*coordinationv1.Lease, error) {
	ctx, stop := r.within(ctx, r.options.RenewDeadline/2)
	defer stop()
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: r.options.Namespace, Name: r.options.leaseName()}}
	r.options.fill(l, holder, time.Now())
	return r.leases.Create(ctx, l, metav1.CreateOptions{})
}

func (r *Ring) put(ctx context.Context, l *coordinationv1.Lease, change func(*coordinationv1.Lease)) (*coordinationv1.Lease, error) {
	ctx, stop := r.within(ctx, r.options.RenewDeadline/2)
	defer stop()
	l = l.DeepCopy()
	change(l)
	return r.leases.Update(ctx, l, metav1.UpdateOptions{})
}

func (r *Ring) remove(ctx context.Context, l *coordinationv1.Lease) error {
	ctx, stop := r.within(ctx, r.options.RenewDeadline/2)
	defer stop()
	err := r.leases.Delete(ctx, l.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &l.UID, ResourceVersion: &l.ResourceVersion}})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
