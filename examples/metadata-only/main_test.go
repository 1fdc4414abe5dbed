// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"testing"

	"github.com/tarn-dev/tarn/examples/internal/clustertest"
)

const want = `ConfigMap settings-a: 200 KiB of JSON on the server, N bytes of it in the cache
ConfigMap settings-b: 200 KiB of JSON on the server, N bytes of it in the cache
`

// few are fewer than 1,000 bytes: the metadata, and nothing of the data.
var few = regexp.MustCompile(`\b\d{1,3} bytes`)

func TestRun(t *testing.T) {
	if got := few.ReplaceAllString(clustertest.Output(t, run), "N bytes"); got != want {
		t.Errorf("the output is\n%s\nwant\n%s", got, want)
	}
}
