// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/tarn-dev/tarn/examples/internal/clustertest"
)

const want = `by key: Lake bled, 30 m deep
by field: Lake inari, 92 m deep
by field: Lake saimaa, 86 m deep
`

func TestRun(t *testing.T) {
	if got := clustertest.Output(t, run); got != want {
		t.Errorf("the output is\n%s\nwant\n%s", got, want)
	}
}
