// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"context"
	"io"
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/tarn-dev/tarn/pkg/cache"
)

// onFakeServer runs a cache, of Secrets and ConfigMaps unless the options have a Mapper, whose requests are answered by answer, until stop
// is called. It overwrites the other options that connect the cache.
func onFakeServer(t testing.TB, answer func(*http.Request) (*http.Response, error), opts cache.Options) (c cache.Cache, stop func()) {
	return onFakeServerWith(t, cache.Tuning{}, answer, opts)
}

// onFakeServerWith is onFakeServer for a cache with tuning.
func onFakeServerWith(t testing.TB, tuning cache.Tuning, answer func(*http.Request) (*http.Response, error), opts cache.Options) (c cache.Cache, stop func()) {
	g := NewWithT(t)
	if opts.Mapper == nil {
		mapper := meta.NewDefaultRESTMapper(nil)
		mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
		mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
		opts.Mapper = mapper
	}
	opts.HTTPClient, opts.DefaultEnableWatchBookmarks = &http.Client{Transport: roundTripper(answer)}, ptr.To(false)
	tuning.NoMetrics = tuning.Registerer == nil
	c, err := cache.With(tuning)(&rest.Config{}, opts)
	g.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	return c, func() {
		cancel()
		g.Expect(<-ended).To(Succeed())
	}
}

// answerWith answers a request with a body in JSON.
func answerWith(r *http.Request, code int, body io.Reader) *http.Response {
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(body), Request: r}
}

// answerWatch answers a watch, which ends with the request. Its events are what is written to events.
func answerWatch(r *http.Request) (answer *http.Response, events *io.PipeWriter) {
	body, events := io.Pipe()
	context.AfterFunc(r.Context(), func() { _ = events.CloseWithError(io.EOF) })
	answer = answerWith(r, http.StatusOK, nil)
	answer.Body = body
	return answer, events
}
