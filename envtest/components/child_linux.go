// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package components

import (
	"os/exec"
	"syscall"
)

// tieToParent has a child end with this process, however that ends. It has a process group of its own, so that an interrupt
// of a terminal reaches it through Stop only.
func tieToParent(child *exec.Cmd) {
	child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	child.Cancel = func() error { return child.Process.Signal(syscall.SIGTERM) }
}
