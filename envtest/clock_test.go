// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

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
		pending := c.After(time.Hour)
		c.end()
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
