// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/tarn-dev/tarn/examples/internal/clustertest"
)

const want = `a: 1, b: 7, c: 4
b leaves
a: 7, c: 5
`

func TestRun(t *testing.T) {
	if got := clustertest.Output(t, run); got != want {
		t.Errorf("the output is\n%s\nwant\n%s", got, want)
	}
}
