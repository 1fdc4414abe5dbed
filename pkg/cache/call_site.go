// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
)

// passOn are beginnings of functions that pass on a read of the program, beside those of this module.
var passOn = []string{
	"sigs.k8s.io/controller-runtime/pkg/client.", "sigs.k8s.io/controller-runtime/pkg/client/",
	"sigs.k8s.io/controller-runtime/pkg/cache.", "sigs.k8s.io/controller-runtime/pkg/cache/", "runtime.",
}

// callSite returns where the program reads: file, line and function of the innermost frame of the goroutine that is neither of
// passOn nor in a file of this module's pkg and internal, apart from tests. The function does not tell the module: a generic one
// that is inlined, as Iterate, has the name of its caller.
func callSite() string {
	var counters [64]uintptr
	frames := runtime.CallersFrames(counters[:runtime.Callers(1, counters[:])])
	frame, more := frames.Next() // of callSite itself
	root := strings.TrimSuffix(frame.File, "pkg/cache/call_site.go")
	for more {
		frame, more = frames.Next()
		file, ours := strings.CutPrefix(frame.File, root)
		ours = ours && !strings.HasSuffix(file, "_test.go") && (strings.HasPrefix(file, "pkg/") || strings.HasPrefix(file, "internal/"))
		if !ours && !slices.ContainsFunc(passOn, func(begin string) bool { return strings.HasPrefix(frame.Function, begin) }) {
			return fmt.Sprintf("%s:%d (%s)", frame.File, frame.Line, frame.Function)
		}
	}
	return "unknown"
}
