// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package variable reads the variables of tests, which CONTRIBUTING.md lists, and says whether the race detector looks at them.
package variable

import (
	"os"
	"strconv"
	"testing"
)

// Number returns the number that an environment variable has, or otherwise if it is not set. The test fails at once if it has something
// else.
func Number(t testing.TB, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// OneGoroutine skips a test under the race detector. It is for long tests of what one goroutine does, and of the heap: the detector finds
// nothing there, and takes five times as long.
func OneGoroutine(t testing.TB) {
	t.Helper()
	if Detector {
		t.Skip("one goroutine has no races")
	}
}
