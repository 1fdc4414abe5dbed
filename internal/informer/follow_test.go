// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

// TestFollowTellsOfEventsWithoutTheirObjects follows an informer that has objects already, lets it list
// again, and looks for objects that were made on the way.
func TestFollowTellsOfEventsWithoutTheirObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		i, err := New(noSource, Options{Example: &corev1.ConfigMap{}})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(i.store.Replace([]any{versioned("ns/old", "5"), versioned("ns/gone", "6")}, "10")).To(Succeed())

		var told []Notification
		over := errors.New("over")
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error)
		go func() { ended <- i.Follow(ctx, func() {}, func(n Notification) { told = append(told, n) }) }()
		synctest.Wait()
		g.Expect(told).To(BeEmpty(), "what was there before is no event")

		g.Expect(i.store.Update(versioned("ns/new", "11"))).To(Succeed())
		g.Expect(i.store.Update(versioned("ns/old", "12"))).To(Succeed())
		g.Expect(i.store.Delete(versioned("ns/new", "13"))).To(Succeed())
		synctest.Wait()
		g.Expect(told).To(Equal([]Notification{
			{Type: watchcache.Added, Key: "ns\x00new", Revision: 11},
			{Type: watchcache.Updated, Key: "ns\x00old", Revision: 12},
			{Type: watchcache.Deleted, Key: "ns\x00new", Revision: 13},
		}))
		told = nil
		g.Expect(i.store.Replace([]any{versioned("ns/old", "12"), versioned("ns/late", "15")}, "20")).To(Succeed())
		synctest.Wait()
		g.Expect(told).To(HaveLen(2))
		for _, n := range told {
			g.Expect(n.Merged).To(BeTrue())
			g.Expect(strings.TrimPrefix(n.Key, "ns\x00")).To(BeElementOf("late", "gone"))
		}
		g.Expect(i.store.handled.Load()).To(BeFalse(), "a follower is no handler, for which objects are made")

		cancel(over)
		g.Expect(<-ended).To(MatchError(over))
	})
}

// versioned returns a ConfigMap at a version.
func versioned(key, version string) *corev1.ConfigMap {
	cm := configMap(key, "")
	cm.ResourceVersion = version
	return cm
}
