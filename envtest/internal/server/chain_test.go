// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"testing"

	genericapiserver "k8s.io/apiserver/pkg/server"
)

func TestARequestWaitsUntilTheServerIsReady(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	ready := make(chan struct{})
	close(ready)
	loopback := &tls.ConnectionState{ServerName: genericapiserver.LoopbackClientServerNameOverride}
	for name, test := range map[string]struct {
		ready   chan struct{}
		run     context.Context
		request context.Context
		from    *tls.ConnectionState
		serves  bool
	}{
		"ready":                    {ready, t.Context(), t.Context(), nil, true},
		"no command line":          {nil, t.Context(), ended, nil, true},
		"its own":                  {make(chan struct{}), t.Context(), t.Context(), loopback, true},
		"the server ends":          {make(chan struct{}), ended, t.Context(), nil, true},
		"the client does not wait": {make(chan struct{}), t.Context(), ended, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			served := false
			s := &Server{base: &base{run: test.run}, ready: test.ready}
			req := httptest.NewRequest(http.MethodGet, "/readyz", nil).WithContext(test.request)
			req.TLS = test.from
			s.awaitReady(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served = true })).ServeHTTP(httptest.NewRecorder(), req)
			if served != test.serves {
				t.Errorf("it was served: %v, want %v", served, test.serves)
			}
		})
	}
}
