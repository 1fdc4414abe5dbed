// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/tarn-dev/tarn/examples/internal/clustertest"
)

const want = `metadata of 5 ConfigMaps
walked to settings-1
walked to settings-2
page of 2, 3 to come
page of 2, 1 to come
page of 1, 0 to come
watches that this took: 1
`

func TestRun(t *testing.T) {
	if got := clustertest.Output(t, run); got != want {
		t.Errorf("the output is\n%s\nwant\n%s", got, want)
	}
}
