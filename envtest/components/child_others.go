// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux && !windows

package components

import (
	"os/exec"
	"syscall"
)

// tieToParent has a child told to end before it is killed. Systems other than Linux do not end it with this process.
func tieToParent(child *exec.Cmd) {
	child.Cancel = func() error { return child.Process.Signal(syscall.SIGTERM) }
}
