// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"runtime"
	"testing"
	"time"
	"weak"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// collections is how often the collector may run until the server has to be gone. Memory that its finalizers free goes
// with the next one.
const collections = 10

// pending is how many timers a process has that runs many tests: HTTP connections that are closed leave theirs behind, for a minute.
const pending = 100

// forgetStoppedTimers lets the runtime forget the timers that are stopped, and so what they would have called: that of a watch leads
// to its server. The runtime does so when they are a quarter of the timers of a processor.
func forgetStoppedTimers() {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // those of the other processors, when it takes over what they have
	timers := make([]*time.Timer, 100*pending)
	for i := range timers {
		timers[i] = time.AfterFunc(time.Hour, func() {})
	}
	for _, timer := range timers { // not each at once: a stopped environment goes when the next one begins
		timer.Stop()
	}
	runtime.Gosched() // it looks at them when it chooses what runs next
}

// released reports whether the collector takes away what a pointer leads to.
func released[T any](pointer weak.Pointer[T]) bool {
	forgetStoppedTimers()
	for range collections {
		runtime.GC()
		if pointer.Value() == nil {
			return true
		}
	}
	return false
}

func TestStopReleasesMemory(t *testing.T) {
	for range pending {
		defer time.AfterFunc(time.Hour, func() {}).Stop()
	}
	env := New(Options{})
	if err := env.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	server := weak.Make(env.running.server)
	w, err := kubernetes.NewForConfigOrDie(env.Config()).CoreV1().Namespaces().Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	<-w.ResultChan() // the watch is open when the server stops
	if err := env.Stop(); err != nil {
		t.Fatal(err)
	}
	w.Stop()
	if !released(server) {
		t.Error("a stopped environment's server is still in memory: something that outlives it, a timer perhaps, refers to it")
	}
}
