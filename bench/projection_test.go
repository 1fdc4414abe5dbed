// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"reflect"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarn-dev/tarn/bench/internal/synthetic"
	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/projection"
)

// keptOfWhole is how much of the memory of whole Pods Pods may take of which the metadata, the node and the phase are kept, and
// keptWithoutAnnotations how much with the metadata that each projection keeps.
const keptOfWhole, keptWithoutAnnotations = 0.55, 0.25

// TestProjectionTakesLess keeps 5,000 Pods of the synthetic cluster flat, from their messages.
func TestProjectionTakesLess(t *testing.T) {
	whole := heapOfPods(t, nil)
	metadata := heapOfPods(t, []string{"metadata", "spec.nodeName", "status.phase"})
	least := heapOfPods(t, []string{"spec.nodeName", "status.phase"})
	t.Logf("bytes for each Pod: whole %.0f; metadata, spec.nodeName, status.phase %.0f (%.2f); spec.nodeName, status.phase %.0f (%.2f)",
		whole, metadata, metadata/whole, least, least/whole)
	if metadata > keptOfWhole*whole || least > keptWithoutAnnotations*whole {
		t.Error("a projection takes more than it may")
	}
}

// heapOfPods returns how many bytes of heap a Pod takes that is kept flat with some fields.
func heapOfPods(t *testing.T, fields []string) float64 {
	const pods = 5000
	typ := reflect.TypeFor[*corev1.Pod]()
	form, kept := object.NewForm(object.Options{Type: typ}), make([]object.Object, pods)
	cluster, p := synthetic.Cluster{Seed: 1}, projection.Of(fields)
	before := heapInUse()
	for i := range kept {
		message, err := cluster.Pod(i).Marshal()
		ok := err == nil
		if p != nil && ok {
			message, ok = p.Messages(typ)(nil, message)
		}
		if ok {
			kept[i], _, ok = form.KeepMessage(message, false, nil)
		}
		if !ok {
			t.Fatalf("Pod %d cannot be kept: %v", i, err)
		}
	}
	bytes := float64(heapInUse()-before) / pods
	runtime.KeepAlive(kept)
	runtime.KeepAlive(form)
	return bytes
}

// heapInUse returns the bytes of the heap behind a collection.
func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	stats := runtime.MemStats{}
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
