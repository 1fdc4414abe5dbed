// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clustertest tests what the examples print.
package clustertest

import (
	"bytes"
	"context"
	"io"
	"testing"
	"time"

	"github.com/tarn-dev/tarn/examples/internal/cluster"
)

// Output returns what an example prints on an API server in this process. The test fails if the example does, or is not done after a
// minute.
func Output(t *testing.T, run func(context.Context, *cluster.Cluster, io.Writer) error) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out bytes.Buffer
	if err := cluster.Use(run)(ctx, cluster.Flags{}, &out); err != nil {
		t.Fatalf("%v; its output was:\n%s", err, out.String())
	}
	return out.String()
}
