// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package main

import "time"

// processCPU returns false: how much CPU time a process has taken is asked on Unix
// alone.
func processCPU() (time.Duration, bool) { return 0, false }
