// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/tarn-dev/tarn/examples/internal/cluster"
)

const want = `all namespaces of the cache: team-a/gold team-a/silver team-b/gold
team-b: team-b/gold
team-c: unable to get: Secret team-c/gold because of unknown namespace for the cache: it is limited to team-a, team-b; add namespace "team-c" to its DefaultNamespaces or ByObject.Namespaces option
`

func TestRun(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out bytes.Buffer
	if err := cluster.Use(run)(ctx, cluster.Flags{}, &out); err != nil {
		t.Fatalf("%v; its output was:\n%s", err, out.String())
	}
	if out.String() != want {
		t.Errorf("the output is\n%s\nwant\n%s", out.String(), want)
	}
}
