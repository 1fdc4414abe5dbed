// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat_test

import (
	"encoding/json"
	"reflect"
	"runtime"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/tarn-dev/tarn/internal/flat"
	"github.com/tarn-dev/tarn/internal/flat/dictionary"
)

// benchPods is how many Pods the timed benchmarks turn over: more than fit into the CPU's caches.
const benchPods = 2000

func podCodec(b testing.TB) *flat.Codec { return codecFor(b, reflect.TypeFor[corev1.Pod]()) }

func codecFor(b testing.TB, t reflect.Type) *flat.Codec {
	b.Helper()
	c, err := flat.For(t)
	if err != nil {
		b.Fatal(err)
	}
	return c
}

func mustEncode(b testing.TB, c *flat.Codec, obj any, d *dictionary.Dictionary) flat.Object {
	b.Helper()
	o, err := c.Encode(obj, d)
	if err != nil {
		b.Fatal(err)
	}
	return o
}

// warm makes Pods, and encodes them with a dictionary that has seen as many.
func warm(b testing.TB) ([]*corev1.Pod, []flat.Object, *dictionary.Dictionary) {
	c, cl, d := podCodec(b), newCluster(1), dictionary.New(dictionary.Limits{})
	for i := range benchPods {
		mustEncode(b, c, cl.pod(i), d)
	}
	pods, objects := make([]*corev1.Pod, benchPods), make([]flat.Object, benchPods)
	for i := range pods {
		pods[i] = wire(cl.pod(benchPods + i))
		objects[i] = mustEncode(b, c, pods[i], d)
	}
	return pods, objects, d
}

// timed runs f and reports the CPU time of the process beside the wall time: on a machine that
// others use too it is the steadier of the two. It includes the work of the garbage collector.
func timed(b *testing.B, f func(i int)) {
	b.ReportAllocs()
	before := cpuTime(b)
	i := 0
	for b.Loop() {
		f(i % benchPods)
		i++
	}
	b.ReportMetric(float64(cpuTime(b)-before)/float64(i), "cpu-ns/op")
}

// BenchmarkPod compares reading a Pod out of a cache: a deep copy of the decoded one against
// materializing the flat one. Each holds its own form alone, as a cache would, so that the work
// of the garbage collector counts where it belongs.
func BenchmarkPod(b *testing.B) {
	c := podCodec(b)
	into := new(corev1.Pod) // the caller's, whichever way it is filled
	pods, objects, d := warm(b)
	b.Run("DeepCopyInto", func(b *testing.B) {
		objects, d = nil, nil
		timed(b, func(i int) {
			pods[i].DeepCopyInto(into)
		})
	})
	pods, objects, d = warm(b)
	b.Run("Encode", func(b *testing.B) {
		timed(b, func(i int) {
			mustEncode(b, c, pods[i], d)
		})
	})
	pods = nil
	b.Run("Decode", func(b *testing.B) {
		timed(b, func(i int) {
			if err := c.Decode(objects[i], into); err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("DecodeReusing", func(b *testing.B) { // an update that changes the version alone
		others, like := make([]flat.Object, benchPods), make([]*corev1.Pod, benchPods)
		for i := range others {
			like[i] = new(corev1.Pod)
			if err := c.Decode(objects[i], like[i]); err != nil {
				b.Fatal(err)
			}
			like[i].ResourceVersion += "0"
			others[i] = mustEncode(b, c, like[i], d)
		}
		timed(b, func(i int) {
			if err := c.DecodeReusing(objects[i], into, others[i], like[i]); err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("DecodeMetadata", func(b *testing.B) {
		timed(b, func(i int) {
			out := new(metav1.ObjectMeta)
			if err := objects[i].DecodeMetadata(out); err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("Name", func(b *testing.B) {
		timed(b, func(i int) {
			if objects[i].Name() == "" {
				b.Fatal("no name")
			}
		})
	})
	b.Run("Label", func(b *testing.B) {
		timed(b, func(i int) {
			if _, ok := objects[i].Label("pod-template-hash"); !ok {
				b.Fatal("no label")
			}
		})
	})
}

// BenchmarkUnstructured is BenchmarkPod for the same Pods as unstructured content.
func BenchmarkUnstructured(b *testing.B) {
	c := codecFor(b, reflect.TypeFor[unstructured.Unstructured]())
	cl, d := newCluster(1), dictionary.New(dictionary.Limits{})
	for i := range benchPods {
		mustEncode(b, c, content(cl.pod(i)), d)
	}
	pods, objects := make([]*unstructured.Unstructured, benchPods), make([]flat.Object, benchPods)
	for i := range pods {
		pods[i] = content(cl.pod(benchPods + i))
		objects[i] = mustEncode(b, c, pods[i], d)
	}
	b.Run("DeepCopyJSON", func(b *testing.B) {
		timed(b, func(i int) {
			kruntime.DeepCopyJSON(pods[i].Object)
		})
	})
	b.Run("Encode", func(b *testing.B) {
		timed(b, func(i int) {
			mustEncode(b, c, pods[i], d)
		})
	})
	pods = nil
	b.Run("Decode", func(b *testing.B) {
		timed(b, func(i int) {
			out := new(unstructured.Unstructured)
			if err := c.Decode(objects[i], out); err != nil {
				b.Fatal(err)
			}
		})
	})
}

// heap returns the bytes in use after a collection.
func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// BenchmarkHeap measures what n Pods take in memory, flat (the dictionary included) and decoded.
// Each round builds the store once; the figures are per Pod.
func BenchmarkHeap(b *testing.B) {
	for _, n := range []int{1000, 20_000, 100_000} {
		b.Run("flat/"+strconv.Itoa(n), func(b *testing.B) {
			c := podCodec(b)
			heapOf(b, n, func(p *corev1.Pod, d *dictionary.Dictionary) (flat.Object, int) {
				o := mustEncode(b, c, p, d)
				return o, p.Size()
			})
		})
	}
	b.Run("unstructured/20000", func(b *testing.B) {
		c := codecFor(b, reflect.TypeFor[unstructured.Unstructured]())
		heapOf(b, 20_000, func(p *corev1.Pod, d *dictionary.Dictionary) (flat.Object, int) {
			u := content(p)
			j, _ := json.Marshal(u)
			return mustEncode(b, c, u, d), len(j)
		})
	})
	b.Run("decoded/5000", func(b *testing.B) {
		cl := newCluster(3)
		for b.Loop() {
			before := heap()
			pods := make([]*corev1.Pod, 5000)
			for i := range pods {
				pods[i] = wire(cl.pod(i))
			}
			b.ReportMetric(float64(heap()-before)/5000, "B/Pod")
			runtime.KeepAlive(pods)
		}
	})
	b.Run("decodedUnstructured/2000", func(b *testing.B) {
		cl := newCluster(3)
		for b.Loop() {
			before := heap()
			pods := make([]*unstructured.Unstructured, 2000)
			for i := range pods {
				pods[i] = content(cl.pod(i))
			}
			b.ReportMetric(float64(heap()-before)/2000, "B/Pod")
			runtime.KeepAlive(pods)
		}
	})
}

// heapOf reports the memory of n Objects.
func heapOf(b *testing.B, n int, encode func(*corev1.Pod, *dictionary.Dictionary) (flat.Object, int)) {
	for b.Loop() {
		cl := newCluster(3)
		before := heap()
		objects := make([]flat.Object, n)
		d := dictionary.New(dictionary.Limits{})
		size, source := 0, 0
		for i := range objects {
			var s int
			objects[i], s = encode(wire(cl.pod(i)), d)
			size += objects[i].Size()
			source += s
		}
		b.ReportMetric(float64(heap()-before)/float64(n), "B/Pod")
		b.ReportMetric(float64(size)/float64(n), "ownB/Pod")
		b.ReportMetric(float64(d.Stats().Heap)/float64(n), "dictB/Pod")
		b.ReportMetric(float64(source)/float64(n), "wireB/Pod")
		b.ReportMetric(float64(d.Stats().Entries), "entries")
		runtime.KeepAlive(objects)
	}
}
