// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// describeMachine returns what the figures depend on, as far as it can be found out.
func describeMachine() []string {
	facts := []string{fmt.Sprintf("%d cores", runtime.NumCPU())}
	if model := field("/proc/cpuinfo", "model name"); model != "" {
		facts[0] += " (" + model + ")"
	}
	var kilobytes float64
	if _, err := fmt.Sscanf(field("/proc/meminfo", "MemTotal"), "%f kB", &kilobytes); err == nil {
		facts = append(facts, fmt.Sprintf("%.0f GiB of memory", kilobytes/(1<<20)))
	}
	kernel := runtime.GOOS + "/" + runtime.GOARCH
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		kernel += " " + strings.TrimSpace(string(release))
	}
	facts = append(facts, kernel, runtime.Version())
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "sigs.k8s.io/controller-runtime" || module.Path == "k8s.io/client-go" {
				facts = append(facts, module.Path[strings.LastIndexByte(module.Path, '/')+1:]+" "+module.Version)
			}
		}
	}
	for _, name := range []string{"GOGC", "GOMEMLIMIT", "GOMAXPROCS", "GODEBUG", "GOEXPERIMENT"} {
		if value := os.Getenv(name); value != "" {
			facts = append(facts, name+"="+value)
		}
	}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		if fields := strings.Fields(string(load)); len(fields) > 0 {
			facts = append(facts, "load before the start "+fields[0])
		}
	}
	return facts
}

// field returns the value of the first line with that name, or "".
func field(file, name string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
