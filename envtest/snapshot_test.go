// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"runtime"
	"testing"
	"weak"

	"github.com/tarn-dev/tarn/envtest/internal/contents"
)

// TestASnapshotDoesNotKeepItsServer holds a snapshot of an environment that has stopped.
func TestASnapshotDoesNotKeepItsServer(t *testing.T) {
	snapshot, state := snapshotOfStopped(t)
	if !released(state) {
		t.Error("what the stopped server had is still in memory")
	}
	runtime.KeepAlive(snapshot)
}

// snapshotOfStopped returns a snapshot, and what its server was.
func snapshotOfStopped(t *testing.T) (*Snapshot, weak.Pointer[contents.Contents]) {
	t.Helper()
	env := New(Options{})
	if err := env.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	snapshot, err := env.Snapshot(t.Context())
	stored, _ := env.contents()
	state := weak.Make(stored)
	if stopped := env.Stop(); err != nil || stopped != nil {
		t.Fatal(err, stopped)
	}
	return snapshot, state
}
