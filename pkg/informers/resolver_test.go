// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestGetEndsWithItsContextWhileDiscoveryHangs: callers that come meanwhile share one question.
func TestGetEndsWithItsContextWhileDiscoveryHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		answer := make(chan struct{})
		var asked atomic.Int64
		m := newFakeMap(alwaysSynced)
		m.options.Mapper.(*mapper).resolving = func(schema.GroupKind) {
			asked.Add(1)
			select {
			case <-answer:
			case <-time.After(32 * time.Second):
			}
		}
		for range 10 {
			begun := time.Now()
			short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			_, err := m.Get(short, podKey)
			cancel()
			g.Expect(time.Since(begun)).To(Equal(100 * time.Millisecond))
			g.Expect(apierrors.IsTimeout(err)).To(BeTrue(), "%v", err)
			var reason *NotSyncedError
			g.Expect(errors.As(err, &reason)).To(BeTrue())
			g.Expect(reason.Cause).To(Equal(Timeout))
			g.Expect(err).To(MatchError(And(ContainSubstring("Pod (v1)"), ContainSubstring("deadline exceeded"))))
		}
		g.Expect(asked.Load()).To(BeEquivalentTo(1))
		close(answer)
		_, err := m.Get(t.Context(), podKey)
		g.Expect(err).NotTo(HaveOccurred())
	})
}

// timingOut is a RESTMapper whose API server answers 504.
type timingOut struct{ meta.RESTMapper }

// RESTMapping implements meta.RESTMapper.
func (timingOut) RESTMapping(schema.GroupKind, ...string) (*meta.RESTMapping, error) {
	return nil, apierrors.NewTimeoutError("no answer in time", 0)
}

// TestAnOptionalKindMayComeAfterATimeoutOfDiscovery: it is parked until discovery answers.
func TestAnOptionalKindMayComeAfterATimeoutOfDiscovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server := &announcing{hosting: hosting{end: make(chan struct{})}, crds: make(chan string)}
		server.serves.Store(true)
		o := optionalOptions(g, server, testOptions())
		o.Mapper = timingOut{}
		m := NewMap(o)
		m.Go(o.Served.Run)
		entry, err := m.Get(t.Context(), podKey)
		g.Expect(err).NotTo(HaveOccurred())
		err = entry.WaitForSync(t.Context())
		g.Expect(apierrors.IsTimeout(err)).To(BeTrue(), "%v", err)
		running(t, m)
		time.Sleep(time.Second)
		g.Expect(entry.WaitForSync(t.Context())).To(Succeed())
	})
}
