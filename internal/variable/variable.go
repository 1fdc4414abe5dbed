// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package variable reads the variables of tests, which CONTRIBUTING.md lists. It says whether the race detector is on.
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

// SkipUnderDetector skips a test under the race detector, and says why.
func SkipUnderDetector(t testing.TB, why string) {
	t.Helper()
	if Detector {
		t.Skip("the race detector is on: " + why)
	}
}
