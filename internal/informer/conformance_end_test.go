// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"os"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestInformerEndsWithoutWaitingForItsNextTry(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		r.server.fail(os.NewSyscallError("connect", syscall.ECONNREFUSED))
		r.start()
		r.elapse(time.Minute)
		ended := time.Now()
		r.stop()
		if r.impl.ours || !r.server.streaming {
			r.Expect(time.Since(ended)).To(BeZero())
		} else {
			r.Expect(time.Since(ended)).To(BeNumerically(">", 0), "client-go's ends when it tries again")
		}
	})
}
