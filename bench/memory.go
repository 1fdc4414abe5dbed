// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
)

// liveHeap returns the bytes of the whole process's heap that are in use. The first
// collection moves what sync.Pools hold to where the second one frees it.
func liveHeap() float64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc)
}

// peakRSS returns the most memory in bytes that this process ever had, and false
// where the kernel does not say: it is known on Linux alone.
func peakRSS() (float64, bool) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmHWM:" {
			kilobytes, err := strconv.ParseFloat(fields[1], 64)
			return kilobytes * 1024, err == nil
		}
	}
	return 0, false
}

// collections is what the garbage collector has done so far.
type collections struct {
	cpu             float64 // seconds, on all cores
	cycles          uint64
	allocated, live float64 // bytes: since the process began, and after the last collection
}

func readCollections() collections {
	samples := []metrics.Sample{
		{Name: "/cpu/classes/gc/total:cpu-seconds"}, {Name: "/gc/cycles/total:gc-cycles"},
		{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"},
	}
	metrics.Read(samples)
	return collections{
		cpu: samples[0].Value.Float64(), cycles: samples[1].Value.Uint64(),
		allocated: float64(samples[2].Value.Uint64()), live: float64(samples[3].Value.Uint64()),
	}
}
