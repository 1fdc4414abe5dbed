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

// TestInformerEndsWhileAResyncIsDue, which a handler was too busy to get.
func TestInformerEndsWhileAResyncIsDue(t *testing.T) {
	eachInformer(t, setting{resync: 10 * time.Second}, func(r *rig) {
		h := &recording{before: func(string) { time.Sleep(15 * time.Second) }}
		r.handle(h)
		r.server.put(configMap("ns/a", "1"))
		r.start()
		r.elapse(12 * time.Second)
		r.stop()
		r.Expect(h.take()).To(HaveLen(1))
	})
}

// TestInformerLeavesWhenHandlersWereToldOfTheEnd, also if one was busy meanwhile, and a resync is due.
func TestInformerLeavesWhenHandlersWereToldOfTheEnd(t *testing.T) {
	eachInformer(t, setting{resync: 10 * time.Second}, func(r *rig) {
		i, ours := r.informer.(*Informer)
		if !ours {
			return // another one cannot leave alone
		}
		busy, quick := &recording{before: func(string) { time.Sleep(4 * time.Second) }}, &recording{}
		r.handle(busy)
		r.handle(quick)
		r.server.put(configMap("ns/a", "1"), configMap("ns/b", "1"))
		r.start()
		r.elapse(9 * time.Second)
		r.Expect(busy.take()).To(ConsistOf("initial ns/a=1", "initial ns/b=1"))
		i.Leave()
		r.settle()
		r.Expect(quick.take()).To(ConsistOf("initial ns/a=1", "initial ns/b=1", "missed delete ns/a=1", "missed delete ns/b=1"))
		select {
		case <-i.Ended():
			r.t.Error("it has ended before its handlers")
		default:
		}
		r.elapse(10 * time.Second)
		r.Expect(busy.take()).To(ConsistOf("missed delete ns/a=1", "missed delete ns/b=1"))
		<-i.Ended()
		<-r.done
	})
}
