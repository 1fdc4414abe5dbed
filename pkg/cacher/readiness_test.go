// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestReadinessGenerations(t *testing.T) {
	g := NewWithT(t)
	r := newReadiness(clock.RealClock{})
	_, err := r.check()
	g.Expect(err).To(MatchError(ContainSubstring("(re)initializing")))
	r.set(true, nil)
	first, err := r.check()
	g.Expect(err).NotTo(HaveOccurred())
	r.set(true, nil)
	g.Expect(r.check()).To(Equal(first), "it was ready already")
	r.set(false, errors.New("the reason"))
	_, err = r.check()
	g.Expect(err).To(MatchError(ContainSubstring("the reason")))
	r.set(true, nil)
	g.Expect(r.check()).NotTo(Equal(first), "who began before must notice")
	r.stop()
	r.stop()
	r.set(true, nil)
	_, err = r.check()
	g.Expect(err).To(MatchError(errStopped), "it stays stopped")
}

func TestReadinessWait(t *testing.T) {
	gone := errors.New("gone")
	for name, test := range map[string]struct {
		then func(r *readiness, cancel context.CancelCauseFunc)
		err  error
	}{
		"ready":        {func(r *readiness, _ context.CancelCauseFunc) { r.set(true, nil) }, nil},
		"stopped":      {func(r *readiness, _ context.CancelCauseFunc) { r.stop() }, errStopped},
		"context ends": {func(_ *readiness, cancel context.CancelCauseFunc) { cancel(gone) }, gone},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				r, result := newReadiness(clock.RealClock{}), make(chan error)
				go func() { result <- r.wait(ctx) }()
				synctest.Wait()
				r.set(false, errors.New("no change"))
				synctest.Wait()
				test.then(r, cancel)
				if err := <-result; !errors.Is(err, test.err) {
					t.Errorf("the error is %v, expected %v", err, test.err)
				}
			})
		})
	}
}

func TestReadinessAdmit(t *testing.T) {
	for name, test := range map[string]struct {
		before func(r *readiness)
		after  time.Duration // it becomes ready
		waits  time.Duration
		err    bool
	}{
		"waits for the first time":      {func(*readiness) {}, 300 * time.Millisecond, 300 * time.Millisecond, false},
		"but not for long":              {func(*readiness) {}, 2 * time.Second, firstWait, true},
		"not if the first list failed":  {func(r *readiness) { r.set(false, errors.New("failed")) }, 300 * time.Millisecond, 0, true},
		"not if it was ready before":    {func(r *readiness) { r.set(true, nil); r.set(false, nil) }, 300 * time.Millisecond, 0, true},
		"not if it is stopped":          {func(r *readiness) { r.stop() }, 300 * time.Millisecond, 0, true},
		"admits at once if it is ready": {func(r *readiness) { r.set(true, nil) }, time.Second, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				r := newReadiness(clock.RealClock{})
				test.before(r)
				timer := time.AfterFunc(test.after, func() { r.set(true, nil) })
				defer timer.Stop()
				begin := time.Now()
				_, err := r.admit(t.Context())
				g.Expect(time.Since(begin)).To(Equal(test.waits))
				if test.err {
					g.Expect(apierrors.IsTooManyRequests(err)).To(BeTrue(), "%v", err)
					seconds, ok := apierrors.SuggestsClientDelay(err)
					g.Expect(ok && seconds > 0).To(BeTrue(), "it says when to come back")
				} else {
					g.Expect(err).NotTo(HaveOccurred())
				}
			})
		})
	}
}

func TestReadinessAdmitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, begin := NewWithT(t), time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := newReadiness(clock.RealClock{}).admit(ctx)
		g.Expect(time.Since(begin)).To(BeZero())
		g.Expect(apierrors.IsTooManyRequests(err)).To(BeTrue(), "%v", err)
		g.Expect(err).To(MatchError(ContainSubstring("storage is (re)initializing")))
	})
}

func TestRetryAfter(t *testing.T) {
	g := NewWithT(t)
	c := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	r := newReadiness(c)
	for _, test := range []struct {
		down  time.Duration
		retry int
	}{{0, 1}, {20 * time.Second, 3}, {time.Minute, 30}, {time.Hour, 30}} {
		c.SetTime(time.Unix(1000, 0).Add(test.down))
		g.Expect(r.retryAfter()).To(Equal(test.retry), "after %v", test.down)
	}
	r.set(true, nil)
	c.SetTime(time.Unix(9000, 0))
	r.stop()
	g.Expect(r.retryAfter()).To(Equal(1), "it was down for no time yet")
}
