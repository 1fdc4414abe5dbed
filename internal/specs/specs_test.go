// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package specs

import (
	"testing"

	. "github.com/onsi/gomega"
	"go.uber.org/goleak"
)

func TestGoroutinesAreLookedForWhenTheLastEnvironmentStops(t *testing.T) {
	g, before, stop := NewWithT(t), goleak.IgnoreCurrent(), make(chan struct{})
	running.Store(2)
	go func() { <-stop }() // one that the environment which still runs has begun
	g.Expect(leftAfterOne(before)).To(Succeed())
	g.Expect(leftAfterOne(before)).To(MatchError(ContainSubstring("TestGoroutinesAreLookedForWhenTheLastEnvironmentStops")))
	close(stop)
	running.Store(1)
	g.Expect(leftAfterOne(before)).To(Succeed())
}
