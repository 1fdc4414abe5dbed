// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package envtest_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/tarn-dev/tarn/envtest"
)

// must ends the benchmark at an error.
func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// reportMilliseconds reports the mean time of an iteration in milliseconds, which reads better than nanoseconds.
func reportMilliseconds(b *testing.B, total time.Duration, unit string) {
	b.ReportMetric(float64(total.Microseconds())/1000/float64(b.N), unit)
}

// benchmarkCRD returns a definition in a group of its own.
func benchmarkCRD(b *testing.B, group string) *apiextensionsv1.CustomResourceDefinition {
	b.Helper()
	data, err := os.ReadFile(widgetManifest)
	must(b, err)
	first, _, _ := strings.Cut(string(data), "\n---\n")
	crd := &apiextensionsv1.CustomResourceDefinition{}
	must(b, yaml.UnmarshalStrict([]byte(first), crd))
	crd.Name, crd.Spec.Group = "widgets."+group, group
	return crd
}

// onEachWatchCache runs a benchmark on every decorator.
func onEachWatchCache(b *testing.B, run func(*testing.B, envtest.Options)) {
	for _, name := range []string{"tarn", "upstream", "none"} {
		decorate, err := envtest.DecoratorNamed(name)
		must(b, err)
		b.Run(name, func(b *testing.B) { run(b, envtest.Options{StorageDecorator: decorate}) })
	}
}

// BenchmarkStart measures from New to the first answered request, and what a running environment holds. It is about an
// environment that is not the first one of its process.
func BenchmarkStart(b *testing.B) { onEachWatchCache(b, benchmarkStart) }

func benchmarkStart(b *testing.B, opts envtest.Options) {
	first := envtest.New(opts)
	must(b, first.Start(b.Context()))
	must(b, first.Stop())
	b.ResetTimer()
	var started, busy time.Duration
	var running int
	for range b.N {
		began, busyBefore := time.Now(), processCPU(b)
		env := envtest.New(opts)
		must(b, env.Start(b.Context()))
		_, err := kubernetes.NewForConfigOrDie(env.Config()).CoreV1().Namespaces().Get(b.Context(), "default", metav1.GetOptions{})
		must(b, err)
		started += time.Since(began)
		busy += processCPU(b) - busyBefore
		running = runtime.NumGoroutine()
		b.StopTimer()
		must(b, env.Stop())
		b.StartTimer()
	}
	reportMilliseconds(b, started, "ms/start")
	reportMilliseconds(b, busy, "cpu-ms/start")
	b.ReportMetric(float64(running), "goroutines")
}

// processCPU returns the CPU time that this process has taken on all cores.
func processCPU(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkStop measures Stop while a watch is open.
func BenchmarkStop(b *testing.B) { onEachWatchCache(b, benchmarkStop) }

func benchmarkStop(b *testing.B, opts envtest.Options) {
	var stopped time.Duration
	for range b.N {
		b.StopTimer()
		env := envtest.New(opts)
		must(b, env.Start(b.Context()))
		w, err := kubernetes.NewForConfigOrDie(env.Config()).CoreV1().Namespaces().Watch(b.Context(), metav1.ListOptions{})
		must(b, err)
		<-w.ResultChan()
		b.StartTimer()
		began := time.Now()
		must(b, env.Stop())
		stopped += time.Since(began)
		w.Stop()
	}
	reportMilliseconds(b, stopped, "ms/stop")
}

// BenchmarkCRDEstablished measures from the creation of a definition until it is established and in discovery.
func BenchmarkCRDEstablished(b *testing.B) {
	env := envtest.StartWith(b, envtest.Options{})
	b.ResetTimer()
	var waited time.Duration
	for i := range b.N {
		crd := benchmarkCRD(b, fmt.Sprintf("g%d.example.com", i))
		began := time.Now()
		must(b, env.InstallCRDs(b.Context(), crd))
		waited += time.Since(began)
	}
	reportMilliseconds(b, waited, "ms/established")
}

// BenchmarkFirstCustomResource measures the first custom resource of a kind, right after its definition is established.
func BenchmarkFirstCustomResource(b *testing.B) {
	env := envtest.StartWith(b, envtest.Options{})
	client := dynamic.NewForConfigOrDie(env.Config())
	b.ResetTimer()
	var waited time.Duration
	for i := range b.N {
		b.StopTimer()
		group := fmt.Sprintf("g%d.example.com", i)
		must(b, env.InstallCRDs(b.Context(), benchmarkCRD(b, group)))
		widget := newWidget(group)
		b.StartTimer()
		began := time.Now()
		_, err := client.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}).
			Namespace("default").Create(b.Context(), widget, metav1.CreateOptions{})
		must(b, err)
		waited += time.Since(began)
	}
	reportMilliseconds(b, waited, "ms/create")
}
