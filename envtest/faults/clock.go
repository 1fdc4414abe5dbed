// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"errors"
	"time"
)

// Shift has the server judge client certificates and tokens of service accounts as if it were d later, or earlier if d is less than
// zero. So a token expires on command, or is not valid yet. Credentials that the server issues meanwhile have the real time. The
// tokens of an environment's own configurations do not expire. A hit is one certificate or token that was judged.
func Shift(d time.Duration) Action { return shift{d: d} }

type shift struct{ d time.Duration }

// clockAction happens to the clock.
type clockAction interface {
	Action
	// shifted returns the time in place of another one.
	shifted(time.Time) time.Time
}

func (s shift) shifted(now time.Time) time.Time { return now.Add(s.d) }

func (s shift) fits(*Rule) error {
	if s.d == 0 {
		return errors.New("a clock that is shifted by nothing")
	}
	return nil
}

// Now returns the time by which a credential is judged now, which is a hit of a rule for the fault point Clock if there is one. A nil
// Injector returns the time.
func (i *Injector) Now() time.Time {
	now := time.Now()
	if i == nil {
		return now
	}
	for _, r := range i.inForce(Clock) {
		if a, ok := r.action.(clockAction); ok && r.hit() {
			return a.shifted(now)
		}
	}
	return now
}
