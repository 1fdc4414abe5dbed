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

// BenchmarkRatio compares reads that are counted with reads of the same store that are not, in turns. The
// ratio is that of the medians; the Pods are small, of larger ones counting is a smaller part.
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
			read := func(r *reader.CacheReader) time.Duration {
				var running sync.WaitGroup
				begin := time.Now()
				for g := range goroutines {
					running.Go(func() {
						out := &corev1.Pod{}
						for n := range chunk {
							if err := r.Get(b.Context(), keys[(n+g*100)%len(keys)], out); err != nil {
								b.Error(err)
							}
						}
					})
				}
				running.Wait()
				return time.Since(begin)
			}
			var with, without []time.Duration
			for b.Loop() {
				without = append(without, read(uncounted))
				with = append(with, read(counted))
			}
			slices.Sort(with)
			slices.Sort(without)
			b.ReportMetric(float64(with[b.N/2])/float64(without[b.N/2]), "ratio")
			b.ReportMetric(float64(without[b.N/2])/float64(chunk*goroutines), "ns/uncounted")
		})
	}
}
