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

const want = `copied: one
copied: two
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
