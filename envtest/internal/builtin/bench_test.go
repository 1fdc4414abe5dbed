// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"testing"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// Both are part of the start of every server; the scheme of the first one only.

func BenchmarkScheme(b *testing.B) {
	for b.Loop() {
		buildScheme()
	}
}

func BenchmarkNew(b *testing.B) {
	Scheme()
	getter := noStorage()
	for b.Loop() {
		if _, err := New(getter, &kind.Access{}); err != nil {
			b.Fatal(err)
		}
	}
}
