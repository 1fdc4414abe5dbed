// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/index"
	"github.com/tarn-dev/tarn/pkg/reader"
)

// chunk is the number of reads that are measured at once: so few that what else the machine does falls
// on both kinds of reads alike.
const chunk = 128

// many is how many times as much is counted as is read, when the counting is measured by itself: it takes so little
// time that starting the goroutines would take more.
const many = 100

// BenchmarkRatio compares reads that are counted with reads of the same store that are not, in turns. The
// ratio is that of the medians; the Pods are small, of larger ones counting is a smaller part. The ratio differs by
// some hundredths from run to run, more than counting takes; so the counting is measured by itself too, and
// share-% is its part of a Get that is counted.
//
//	go test -run - -bench Ratio/metrics -benchtime 2000x ./pkg/reader
func BenchmarkRatio(b *testing.B) {
	s := newEngineStore(NewWithT(b), &corev1.Pod{}, false)
	keys := make([]client.ObjectKey, 1000)
	for n := range keys {
		keys[n] = client.ObjectKey{Namespace: "ns", Name: fmt.Sprint("pod-", n)}
		s.put(pod("ns", keys[n].Name, n+1))
	}
	counted := reader.New(reader.Options{
		Store: s.reads(), GVK: podKind, Scope: meta.RESTScopeNameNamespace, Fields: index.NewFields(podKind, logr.Discard()),
	})
	uncounted := counted.Uncounted()
	for name, goroutines := range map[string]int{"metrics/Get": 1, "metrics/Get in parallel": 8} {
		b.Run(name, func(b *testing.B) {
			turn := func(times int, do func(g, n int, out *corev1.Pod)) time.Duration {
				var running sync.WaitGroup
				begin := time.Now()
				for g := range goroutines {
					running.Go(func() {
						out := &corev1.Pod{}
						for n := range times {
							do(g, n, out)
						}
					})
				}
				running.Wait()
				return time.Since(begin)
			}
			read := func(r *reader.CacheReader) time.Duration {
				return turn(chunk, func(g, n int, out *corev1.Pod) {
					if err := r.Get(b.Context(), keys[(n+g*100)%len(keys)], out); err != nil {
						b.Error(err)
					}
				})
			}
			count := func(int, int, *corev1.Pod) { counted.CountGet() }
			var with, without, alone []time.Duration
			for b.Loop() {
				without = append(without, read(uncounted))
				with = append(with, read(counted))
				alone = append(alone, turn(many*chunk, count))
			}
			slices.Sort(with)
			slices.Sort(without)
			slices.Sort(alone)
			b.ReportMetric(100*float64(alone[b.N/2])/float64(many*with[b.N/2]), "share-%")
			b.ReportMetric(float64(with[b.N/2])/float64(without[b.N/2]), "ratio")
			b.ReportMetric(float64(without[b.N/2])/float64(chunk*goroutines), "ns/uncounted")
		})
	}
}
