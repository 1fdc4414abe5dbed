// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/tarn-dev/tarn/examples/internal/clustertest"
)

const want = `added: nginx
got: nginx with image nginx:1.29
not in this cache: Pod "another" not found in the cache, which holds only what matches the field selector "metadata.name=nginx"
updated: labels map[tier:front], before map[]
deleted: nginx
`

func TestRun(t *testing.T) {
	if got := clustertest.Output(t, run); got != want {
		t.Errorf("the output is\n%s\nwant\n%s", got, want)
	}
}
