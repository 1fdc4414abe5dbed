// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat_test

import (
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/tarn-dev/tarn/pkg/flat"
)

// BenchmarkRatio takes turns, all objects once each, between copying decoded objects and what
// this package does instead. It reports the median CPU time of a turn for each object,
// and the ratio. On a machine that others use too this is steadier than benchmarks one after the other.
// Both forms are in memory all the time, so that each pays for the other's garbage collection;
// BenchmarkPod and BenchmarkUnstructured hold one form at a time.
func BenchmarkRatio(b *testing.B) {
	pods, objects, d := warm(b)
	c := podCodec(b)
	into := new(corev1.Pod) // the caller's, whichever way it is filled
	b.Run("pod", func(b *testing.B) {
		turns(b, map[string]func(i int){
			"copy":   func(i int) { pods[i].DeepCopyInto(into) },
			"decode": func(i int) { _ = c.Decode(objects[i], into) },
			"encode": func(i int) { _, _ = c.Encode(pods[i], d) },
			// As a watch does: the object was decoded a moment ago and is in the CPU's caches.
			"encodeFresh": func(i int) { _, _ = c.Encode(pods[i%10], d) },
		})
	})
	contents, flats := make([]*unstructured.Unstructured, benchPods), make([]flat.Object, benchPods)
	u, d := codecFor(b, reflect.TypeFor[unstructured.Unstructured]()), flat.NewDictionary(flat.Limits{})
	for range 2 {
		for i := range contents {
			contents[i] = content(pods[i])
			flats[i] = mustEncode(b, u, contents[i], d)
		}
	}
	b.Run("unstructured", func(b *testing.B) {
		turns(b, map[string]func(i int){
			"copy":   func(i int) { kruntime.DeepCopyJSON(contents[i].Object) },
			"decode": func(i int) { _ = u.Decode(flats[i], new(unstructured.Unstructured)) },
			"encode": func(i int) { _, _ = u.Encode(contents[i], d) },
		})
	})
}

// turns lets the functions take turns and reports on them; "copy" is what they are compared with.
func turns(b *testing.B, functions map[string]func(i int)) {
	times := map[string][]int64{}
	for b.Loop() {
		for name, f := range functions {
			before := cpuTime(b)
			for i := range benchPods {
				f(i)
			}
			times[name] = append(times[name], (cpuTime(b)-before)/benchPods)
		}
	}
	median := func(name string) float64 {
		slices.Sort(times[name])
		return float64(times[name][len(times[name])/2])
	}
	for name := range functions {
		b.ReportMetric(median(name), name+"-ns")
		if name != "copy" {
			b.ReportMetric(median(name)/median("copy"), name+"/copy")
		}
	}
	b.ReportMetric(0, "ns/op") // a round of turns means nothing
}
