// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"

	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/tarn-dev/tarn/envtest/internal/catalog"
)

// chain is the default handler chain, for a server with the OpenAPI documents. Outside it, requests for these documents wait until
// there are some. Inside it, from the outside in: a count of handlers, faults, the way to other servers, and a gate where writes
// wait while the state is replaced. Handlers are counted here too because the outer end gives up on a request that its client has
// left, and Stop must not pull the storage away from the handler that still works on it.
func (b *builder) chain(documents *catalog.OpenAPI) func(http.Handler, *genericapiserver.Config) http.Handler {
	return func(handler http.Handler, config *genericapiserver.Config) http.Handler {
		if b.gate != nil {
			handler = b.gate.Wrap(handler)
		}
		handler = b.aggregation.Wrap(handler)
		if b.from.Faults != nil {
			handler = b.from.Faults.Handler(handler)
		}
		return documents.Await(b.run, genericapiserver.DefaultBuildHandlerChain(b.handlers.Track(handler), config))
	}
}

// awaitReady holds requests until the server is ready, except its own, because a failed readiness poll costs an interval. Without a
// command line nobody knows the address before, and nothing is held.
func (s *Server) awaitReady(next http.Handler) http.Handler {
	if s.ready == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.TLS == nil || req.TLS.ServerName != genericapiserver.LoopbackClientServerNameOverride {
			select {
			case <-s.ready:
			case <-s.run.Done():
			case <-req.Context().Done():
				return // nobody waits for an answer
			}
		}
		next.ServeHTTP(w, req)
	})
}
