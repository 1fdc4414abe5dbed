// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"context"
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// away is an API server that cannot be reached: each request fails in the same way.
type away func(*http.Request) (*http.Response, error)

func (a away) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

func TestWhatTheEndOfAnInformerCancelsIsNoFailure(t *testing.T) {
	g := NewWithT(t)
	failed := &Failures{}
	client := failed.Client(&http.Client{Transport: away(func(r *http.Request) (*http.Response, error) { return nil, r.Context().Err() })})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/api/v1/pods?watch=true", http.NoBody)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = client.Do(request)
	g.Expect(err).To(MatchError(context.Canceled))
	g.Expect(failed.Last()).To(BeNil())
}
