// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package envtest_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tarn-dev/tarn/envtest"
)

// BenchmarkReset measures Reset of 1,000 ConfigMaps in ten namespaces, and Restore of a snapshot of them.
func BenchmarkReset(b *testing.B) { onEachWatchCache(b, benchmarkReset) }

func benchmarkReset(b *testing.B, opts envtest.Options) {
	env := envtest.New(opts)
	must(b, env.Start(b.Context()))
	b.Cleanup(func() { must(b, env.Stop()) })
	config := env.Config()
	config.QPS = -1
	kube := kubernetes.NewForConfigOrDie(config)
	for i := range 10 {
		ns := namespace(fmt.Sprintf("bench-%d", i))
		_, err := kube.CoreV1().Namespaces().Create(b.Context(), ns, metav1.CreateOptions{})
		must(b, err)
		for j := range 100 {
			_, err := kube.CoreV1().ConfigMaps(ns.Name).Create(b.Context(), configMap(fmt.Sprintf("cm-%d", j), "value"), metav1.CreateOptions{})
			must(b, err)
		}
	}
	full, err := env.Snapshot(b.Context())
	must(b, err)
	b.ResetTimer()
	var reset, restore time.Duration
	for range b.N {
		began := time.Now()
		must(b, env.Reset(b.Context()))
		reset += time.Since(began)
		began = time.Now()
		must(b, env.Restore(b.Context(), full))
		restore += time.Since(began)
	}
	reportMilliseconds(b, reset, "ms/reset")
	reportMilliseconds(b, restore, "ms/restore")
	b.ReportMetric(float64(full.Bytes()), "snapshot-bytes")
}
