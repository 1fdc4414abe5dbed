// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"context"
	"testing"
	"time"
)

// startPatience is about a hundred times what a start takes; it bounds a test on a machine that is out of breath.
const startPatience = time.Minute

// Start starts an environment with default options, and stops it when the test ends. If either fails, the test fails.
func Start(t testing.TB) *Environment {
	t.Helper()
	return StartWith(t, Options{})
}

// StartWith is Start with options.
func StartWith(t testing.TB, opts Options) *Environment {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startPatience)
	defer cancel()
	env := New(opts)
	if err := env.Start(ctx); err != nil {
		t.Fatalf("envtest: %v", err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Errorf("envtest: %v", err)
		}
	})
	return env
}
