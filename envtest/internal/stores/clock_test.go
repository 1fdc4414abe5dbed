// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestEndingClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, began := newEndingClock(), time.Now()
		<-c.After(time.Second)
		if took := time.Since(began); took != time.Second {
			t.Errorf("After(1s) fired after %s", took)
		}
		if since := c.Since(began); since != time.Second {
			t.Errorf("Since is %s after a second", since)
		}
		pending := c.After(time.Hour)
		c.end()
		if since := c.Since(began); since < afterEnd {
			t.Errorf("Since is %s when the clock has ended, so that readers wait on", since)
		}
		<-pending
		<-c.After(time.Hour)
		if took := time.Since(began); took != time.Second {
			t.Errorf("After(1h) of a clock that ended fired after %s", took)
		}
		c.end() // once more is harmless
		if n := len(c.pending); n != 0 {
			t.Errorf("%d timers are left", n)
		}
	})
}
