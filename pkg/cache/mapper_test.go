// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// mute is an API server that does not answer.
type mute struct{ asked, ended atomic.Int64 }

// RoundTrip implements http.RoundTripper.
func (s *mute) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asked.Add(1)
	<-r.Context().Done()
	s.ended.Add(1)
	return nil, r.Context().Err()
}

// TestDiscoveryGivesUp: nobody else can end what the RESTMapper of the cache asks.
func TestDiscoveryGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, server := NewWithT(t), &mute{}
		its := &http.Client{Transport: server}
		opts := Options{HTTPClient: its}
		g.Expect(setDefaults(&rest.Config{Host: "https://nobody.example.com"}, &opts)).To(Succeed())
		g.Expect(opts.HTTPClient).To(BeIdenticalTo(its), "watches last longer")
		g.Expect(its.Timeout).To(BeZero())
		kinds := &namespacedKinds{mapper: opts.Mapper}
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := kinds.has(ctx, corev1.SchemeGroupVersion.WithKind("Pod"))
			cancel()
			g.Expect(apierrors.IsTimeout(err)).To(BeTrue(), "%v", err)
		}
		g.Expect(server.asked.Load()).To(BeEquivalentTo(1))
		time.Sleep(5 * time.Minute)
		g.Expect(server.ended.Load()).To(Equal(server.asked.Load()))
	})
}
