// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package ordered

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// onPanics has reported called with each panic that utilruntime.HandleCrash sees, which then
// ends the process or not, until the test ends.
func onPanics(t *testing.T, end bool, reported func(any)) {
	reallyCrash, handlers := utilruntime.ReallyCrash, utilruntime.PanicHandlers
	t.Cleanup(func() { utilruntime.ReallyCrash, utilruntime.PanicHandlers = reallyCrash, handlers })
	utilruntime.ReallyCrash = end
	utilruntime.PanicHandlers = []func(context.Context, any){func(_ context.Context, r any) { reported(r) }}
}

// TestAPanicIsReportedBeforeTheProcessEnds: as it is by default, in the goroutines of ours that
// run a user's functions and are not one of client-go's.
func TestAPanicIsReportedBeforeTheProcessEnds(t *testing.T) {
	g := NewWithT(t)
	var panics []string
	onPanics(t, true, func(r any) { panics = append(panics, fmt.Sprint(r)) })
	bad := watch.Event{Type: watch.Added, Object: &corev1.ConfigMap{}}
	w := &Watch{each: func(watch.Event) watch.Event { panic("broken") }}
	g.Expect(func() { w.do(&job{event: bad, done: make(chan struct{})}) }).To(PanicWith("broken"))
	g.Expect(panics).To(Equal([]string{"broken"}))
}

// TestAWatchEndsAtAnEventThatCannotBeMade: as it does in client-go if a decoder panics and the
// process goes on, so that the Reflector watches anew.
func TestAWatchEndsAtAnEventThatCannotBeMade(t *testing.T) {
	panics := make(chan string, 2)
	onPanics(t, false, func(r any) { panics <- fmt.Sprint(r) })
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		from := watch.NewFake()
		w := New(from, func(e watch.Event) watch.Event {
			if e.Type == watch.Deleted {
				panic("broken")
			}
			return e
		})
		go func() {
			from.Add(&corev1.ConfigMap{})
			from.Delete(&corev1.ConfigMap{})
		}()
		first, open := <-w.ResultChan()
		g.Expect(open).To(BeTrue())
		g.Expect(first.Type).To(Equal(watch.Added))
		_, open = <-w.ResultChan()
		g.Expect(open).To(BeFalse())
		w.Stop()
	})
	NewWithT(t).Expect(panics).To(Receive(Equal("broken")))
	NewWithT(t).Expect(panics).NotTo(Receive())
}
