// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/tarn-dev/tarn/examples/internal/clustertest"
)

const want = `all namespaces of the cache: team-a/gold team-a/silver team-b/gold
team-b: team-b/gold
team-c: unable to get: Secret team-c/gold because of unknown namespace for the cache: it is limited to team-a, team-b; add namespace "team-c" to its DefaultNamespaces or ByObject.Namespaces option
`

func TestRun(t *testing.T) {
	if got := clustertest.Output(t, run); got != want {
		t.Errorf("the output is\n%s\nwant\n%s", got, want)
	}
}
