// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/cache"
)

// TestAReferenceThatIsGivenUpEndsWithTheIdleTime has a reconcile that no longer reads what it has read: the watch is closed, and the
// informer is gone, within a second after the idle time, which is 30 seconds by default.
func TestAReferenceThatIsGivenUpEndsWithTheIdleTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, server := NewWithT(t), &refusing{}
		server.permits.Store(true)
		var open atomic.Int64
		c, stop := onFakeServer(t, func(r *http.Request) (*http.Response, error) {
			if r.URL.Query().Has("watch") {
				open.Add(1)
				context.AfterFunc(r.Context(), func() { open.Add(-1) })
			}
			return server.answer(r)
		}, cache.Options{})
		defer stop()
		var given atomic.Bool
		k, err := control(c, nil, 1, func(ctx context.Context, refs client.Reader, _ string) error {
			if given.Load() {
				return nil
			}
			return client.IgnoreNotFound(refs.Get(ctx, named("shop", "tls"), &corev1.Secret{}))
		})
		g.Expect(err).NotTo(HaveOccurred())
		defer k.stop()
		k.queue.Add("r")
		time.Sleep(time.Minute)
		g.Expect(open.Load()).To(BeEquivalentTo(1))
		given.Store(true)
		k.queue.Add("r")
		time.Sleep(29 * time.Second)
		g.Expect(open.Load()).To(BeEquivalentTo(1))
		time.Sleep(2 * time.Second)
		g.Expect(open.Load()).To(BeZero())
		g.Expect(informersOf(c)).To(BeEmpty())
	})
}
