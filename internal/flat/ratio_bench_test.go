// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat_test

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/tarn-dev/tarn/internal/flat"
	"github.com/tarn-dev/tarn/internal/flat/dictionary"
)

// BenchmarkRatio takes turns, a thousand objects each from a random one on, between copying
// decoded objects and what this package does instead. It reports the mean CPU time for an
// object, and the ratio. On a machine that others use too this is steadier than benchmarks one
// after the other. Both forms are in memory all the time, so that each pays for the other's
// garbage collection; BenchmarkPod and BenchmarkUnstructured hold one form at a time.
func BenchmarkRatio(b *testing.B) {
	pods, objects, d := warm(b)
	c := podCodec(b)
	into := new(corev1.Pod) // the caller's, whichever way it is filled
	b.Run("pod", func(b *testing.B) {
		turns(b, benchPods, map[string]func(i int){
			"copy":   func(i int) { pods[i].DeepCopyInto(into) },
			"decode": func(i int) { _ = c.Decode(objects[i], into) },
		})
	})
	b.Run("encode", func(b *testing.B) {
		turns(b, benchPods, map[string]func(i int){
			"copy":   func(i int) { pods[i].DeepCopyInto(into) },
			"encode": func(i int) { _, _ = c.Encode(pods[i], d) },
			// As a watch does: the object was decoded a moment ago and is in the CPU's caches.
			"encodeFresh": func(i int) { _, _ = c.Encode(pods[i%10], d) },
		})
	})
	// What a watch sends, and what is made of it: an object, its flat form by way of the object, and
	// the flat form alone.
	messages := make([][]byte, benchPods)
	for i := range messages {
		messages[i], _ = pods[i].Marshal()
	}
	b.Run("wire", func(b *testing.B) {
		turns(b, benchPods, map[string]func(i int){
			"copy":   func(i int) { _ = new(corev1.Pod).Unmarshal(messages[i]) },
			"object": func(i int) { p := new(corev1.Pod); _ = p.Unmarshal(messages[i]); _, _ = c.Encode(p, d) },
			"wire":   func(i int) { _, _ = c.EncodeWire(messages[i], d) },
			"both": func(i int) {
				o, _ := c.EncodeWire(messages[i], d)
				_ = c.Decode(o, new(corev1.Pod))
			},
		})
	})
	// Updates of the status alone, of Pods that were updated before.
	updates := make([][]byte, benchPods)
	for i := range updates {
		previous := func(string, string) flat.Object { return objects[i] }
		objects[i], _ = c.EncodeWireAfter(messages[i], d, previous)
		updates[i] = statusUpdate(pods[i])
	}
	b.Run("update", func(b *testing.B) {
		turns(b, benchPods, map[string]func(i int){
			"copy": func(i int) { _ = new(corev1.Pod).Unmarshal(updates[i]) },
			"wire": func(i int) {
				objects[i], _ = c.EncodeWireAfter(updates[i], d, func(string, string) flat.Object { return objects[i] })
			},
			"anew": func(i int) { _, _ = c.EncodeWire(updates[i], d) },
		})
	})
	// What handlers get as the old object of such an update. New is what they get as the new one.
	likes, news := make([]*corev1.Pod, benchPods), make([]flat.Object, benchPods)
	for i := range likes {
		news[i], _ = c.EncodeWireAfter(updates[i], d, func(string, string) flat.Object { return objects[i] })
		objects[i], _ = c.EncodeWire(messages[i], d)
		likes[i] = new(corev1.Pod)
		_ = c.Decode(news[i], likes[i])
	}
	b.Run("old", func(b *testing.B) {
		turns(b, benchPods, map[string]func(i int){
			"copy": func(i int) { pods[i].DeepCopyInto(into) },
			"new":  func(i int) { _ = c.Decode(news[i], new(corev1.Pod)) },
			"old":  func(i int) { _ = c.DecodeReusing(objects[i], new(corev1.Pod), news[i], likes[i]) },
		})
	})
	contents, flats := make([]*unstructured.Unstructured, benchPods), make([]flat.Object, benchPods)
	u, d := codecFor(b, reflect.TypeFor[unstructured.Unstructured]()), dictionary.New(dictionary.Limits{})
	for range 2 {
		for i := range contents {
			contents[i] = content(pods[i])
			flats[i] = mustEncode(b, u, contents[i], d)
		}
	}
	b.Run("unstructured", func(b *testing.B) {
		turns(b, benchPods, map[string]func(i int){
			"copy":   func(i int) { kruntime.DeepCopyJSON(contents[i].Object) },
			"decode": func(i int) { _ = u.Decode(flats[i], new(unstructured.Unstructured)) },
		})
	})
}

// statusUpdate returns the message of a Pod whose status has changed.
func statusUpdate(pod *corev1.Pod) []byte {
	pod = pod.DeepCopy()
	pod.ResourceVersion += "1"
	pod.Status.Conditions[0].LastTransitionTime.Time = pod.Status.Conditions[0].LastTransitionTime.Add(time.Second)
	message, _ := pod.Marshal()
	return message
}

// BenchmarkFirstUpdate updates the status of each of many Pods once. There are so many that the processor's
// caches do not hold them. "anew" is what an update takes without the state before.
func BenchmarkFirstUpdate(b *testing.B) {
	const n = 20_000
	c, cl, d := podCodec(b), newCluster(1), dictionary.New(dictionary.Limits{})
	created, updates := make([]flat.Object, n), make([][]byte, n)
	for i := range n {
		pod := cl.pod(i)
		message, _ := pod.Marshal()
		created[i], _ = c.EncodeWire(message, d)
		updates[i] = statusUpdate(pod)
	}
	turns(b, n, map[string]func(i int){
		"copy": func(i int) { _ = new(corev1.Pod).Unmarshal(updates[i]) },
		"wire": func(i int) {
			_, _ = c.EncodeWireAfter(updates[i], d, func(string, string) flat.Object { return created[i] })
		},
		"anew": func(i int) { _, _ = c.EncodeWire(updates[i], d) },
	})
}

// turns lets the functions take turns at so many objects and reports on them; "copy" is what they are
// compared with.
func turns(b *testing.B, objects int, functions map[string]func(i int)) {
	const turn = 1000
	sum, rounds := map[string]int64{}, 0
	for b.Loop() {
		for name, f := range functions { // in another order each time
			from, before := rand.IntN(objects), cpuTime(b)
			for i := range turn {
				f((from + i) % objects)
			}
			sum[name] += cpuTime(b) - before
		}
		rounds++
	}
	for name := range functions {
		b.ReportMetric(float64(sum[name])/float64(rounds*turn), name+"-ns")
		if name != "copy" {
			b.ReportMetric(float64(sum[name])/float64(sum["copy"]), name+"/copy")
		}
	}
	b.ReportMetric(0, "ns/op") // a round of turns means nothing
}
