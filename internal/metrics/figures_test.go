// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/tarn-dev/tarn/internal/informer"
)

// TestCountersOfRequestsBeginAtZero: increase() does not see the first of what has no series before.
func TestCountersOfRequestsBeginAtZero(t *testing.T) {
	g := NewWithT(t)
	f := newFigures()
	f.add(Sample{Informer: &informer.Stats{}, Memory: func(func(string, int) bool) {}})
	g.Expect(f.labelled[listsMetric]).To(And(HaveLen(11), HaveEach(BeZero()), HaveKey("first"), HaveKey("absent"), Not(HaveKey("stopped"))))
	g.Expect(f.labelled[watchEndsMetric]).To(And(HaveLen(10), HaveEach(BeZero()), HaveKey("undecodable"), HaveKey("stopped"), Not(HaveKey("retry"))))
}
