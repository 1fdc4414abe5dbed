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

const want = `metadata of 5 ConfigMaps
walked to settings-1
walked to settings-2
page of 2, 3 to come
page of 2, 1 to come
page of 1, 0 to come
watches that this took: 1
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
