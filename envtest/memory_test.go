// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"runtime"
	"testing"
	"weak"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// collections is how often the collector may run until the server has to be gone. What its finalizers free goes with the
// next one.
const collections = 10

func TestStopReleasesMemory(t *testing.T) {
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
	for range collections {
		runtime.GC()
		if server.Value() == nil {
			return
		}
	}
	t.Error("a stopped environment's server is still in memory: something that outlives it, a timer perhaps, refers to it")
}
