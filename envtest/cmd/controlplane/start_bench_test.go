// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"

	tarn "github.com/tarn-dev/tarn/envtest"
)

// realVariable names the folder of the real binaries, for BenchmarkStart.
const realVariable = "TARN_REAL_ASSETS"

// BenchmarkStart starts and stops controller-runtime's Environment on each kind of control plane, one after the other in
// each round, so that a busy machine is as busy for all:
//
//	TARN_REAL_ASSETS=... go test ./envtest/cmd/controlplane -run '^$' -bench Start -benchtime 10x
//
// It reports the mean time of a start, and its share of the real binaries' time. The memory of processes is their resident
// set when they are ready.
func BenchmarkStart(b *testing.B) {
	kinds := []struct {
		name string
		run  func(*testing.B) (time.Duration, int)
	}{
		{"tarn-binaries", func(b *testing.B) (time.Duration, int) { return startBinaries(b, assets) }},
		{"in-process", startInProcess},
	}
	if folder := os.Getenv(realVariable); folder != "" {
		kinds = append(kinds, struct {
			name string
			run  func(*testing.B) (time.Duration, int)
		}{"real-binaries", func(b *testing.B) (time.Duration, int) { return startBinaries(b, folder) }})
	}
	total, memory := map[string]time.Duration{}, map[string]int{}
	for range b.N {
		for _, kind := range kinds {
			took, bytes := kind.run(b)
			total[kind.name] += took
			memory[kind.name] = max(memory[kind.name], bytes)
		}
	}
	b.ReportMetric(0, "ns/op") // of all together says nothing
	for _, kind := range kinds {
		b.ReportMetric(float64(total[kind.name].Milliseconds())/float64(b.N), "ms/"+kind.name)
		b.ReportMetric(float64(memory[kind.name])/(1<<20), "MiB/"+kind.name)
		if real := total["real-binaries"]; real > 0 {
			b.ReportMetric(float64(total[kind.name])/float64(real), "share/"+kind.name)
		}
	}
}

// startBinaries starts and stops the binaries of a folder.
func startBinaries(b *testing.B, folder string) (time.Duration, int) {
	b.Helper()
	env := &envtest.Environment{BinaryAssetsDirectory: folder}
	began := time.Now()
	if _, err := env.Start(); err != nil {
		b.Fatal(err)
	}
	took := time.Since(began)
	bytes := residentBelow(b, folder)
	if err := env.Stop(); err != nil {
		b.Fatal(err)
	}
	return took, bytes
}

// startInProcess starts and stops a server in this process. Its memory is that of the whole test.
func startInProcess(b *testing.B) (time.Duration, int) {
	b.Helper()
	env := tarn.New(tarn.Options{})
	began := time.Now()
	if err := env.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	plane := &envtest.Environment{UseExistingCluster: new(bool), Config: env.Config()}
	*plane.UseExistingCluster = true
	if _, err := plane.Start(); err != nil {
		b.Fatal(err)
	}
	took := time.Since(began)
	bytes := resident(b, fmt.Sprint(os.Getpid()))
	if err := env.Stop(); err != nil {
		b.Fatal(err)
	}
	return took, bytes
}

// residentBelow sums up the processes that run programs of the folder.
func residentBelow(b *testing.B, folder string) int {
	b.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		b.Fatal(err)
	}
	sum := 0
	for _, link := range links {
		if program, err := os.Readlink(link); err == nil && filepath.Dir(program) == folder {
			sum += resident(b, filepath.Base(filepath.Dir(link)))
		}
	}
	return sum
}

// residentSet finds the resident set in /proc/*/status, in KiB.
var residentSet = regexp.MustCompile(`VmRSS:\s*(\d+) kB`)

// resident is the resident set of a process in bytes; zero where /proc does not tell.
func resident(b *testing.B, process string) int {
	b.Helper()
	status, err := os.ReadFile(filepath.Join("/proc", process, "status"))
	if err != nil {
		return 0
	}
	match := residentSet.FindSubmatch(status)
	if match == nil {
		return 0
	}
	kib, err := strconv.Atoi(string(match[1]))
	if err != nil {
		b.Fatal(err)
	}
	return kib << 10
}
