// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/tarn-dev/tarn/examples/internal/cluster"
)

// TestOwnWritesAreSeen looks at what does not depend on how fast the machine is: with a watch that
// is late, the plain client makes children twice, and ours makes none and runs into no conflict.
func TestOwnWritesAreSeen(t *testing.T) {
	log.SetLogger(logr.Discard())
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	err := cluster.Use(func(ctx context.Context, c *cluster.Cluster, _ io.Writer) error {
		plain, err := try(ctx, c, setups[0], 300*time.Millisecond, 4)
		if err != nil {
			return err
		}
		if plain.twice == 0 || plain.conflicts == 0 {
			t.Errorf("the plain client does not show what this example is about: %+v", plain)
		}
		for _, delay := range []time.Duration{0, 300 * time.Millisecond} {
			own, err := try(ctx, c, setups[2], delay, 4)
			if err != nil {
				return err
			}
			if own.twice != 0 || own.conflicts != 0 {
				t.Errorf("Tarn's client, %s late: %+v", delay, own)
			}
		}
		return nil
	})(ctx, cluster.Flags{}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
}
