// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package flat_test

import "testing"

// cpuTime is for benchmarks, which need the CPU time of the process.
func cpuTime(b *testing.B) int64 {
	b.Skip("this system does not tell the CPU time of a process as others do")
	return 0
}
