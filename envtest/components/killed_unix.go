// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !windows

package components

import (
	"os"
	"syscall"
)

// killed reports whether SIGKILL has ended a process.
func killed(state *os.ProcessState) bool {
	status, ok := state.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}
