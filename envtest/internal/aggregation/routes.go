// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregation

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/mux"
	corelisters "k8s.io/client-go/listers/core/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	"k8s.io/kube-aggregator/pkg/controllers/openapi"
	openapiaggregator "k8s.io/kube-aggregator/pkg/controllers/openapi/aggregator"
	"k8s.io/kube-aggregator/pkg/controllers/openapiv3"
	openapiv3aggregator "k8s.io/kube-aggregator/pkg/controllers/openapiv3/aggregator"

	"github.com/tarn-dev/tarn/envtest/internal/catalog"
)

// remoteParts is what other servers need. The registration controller, which calls from one goroutine, owns it.
type remoteParts struct {
	hosts     map[string]*host // by the name of the APIService
	services  map[string]*apiregistrationv1.APIService
	resolver  aggregatorapiserver.ServiceResolver
	discovery aggregatorapiserver.DiscoveryAggregationController
	v2        *openapi.AggregationController
	v3        *openapiv3.AggregationController
	openAPI   http.Handler // serves the documents of all servers
}

// routable finds a Service where there is no network of a cluster: under its external name, or else at its endpoints.
type routable struct {
	services              corelisters.ServiceLister
	byAddress, byEndpoint aggregatorapiserver.ServiceResolver
}

// ResolveEndpoint implements aggregatorapiserver.ServiceResolver.
func (r routable) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	service, err := r.services.Services(namespace).Get(name)
	if err == nil && service.Spec.Type == corev1.ServiceTypeExternalName {
		return r.byAddress.ResolveEndpoint(namespace, name, port)
	}
	return r.byEndpoint.ResolveEndpoint(namespace, name, port)
}

// own is this server: its documents are the first to be merged.
type own struct {
	genericapiserver.DelegationTarget
}

// ListedPaths implements genericapiserver.DelegationTarget.
func (own) ListedPaths() []string { return []string{catalog.PathV2, catalog.PathV3} }

// NextDelegate implements genericapiserver.DelegationTarget.
func (own) NextDelegate() genericapiserver.DelegationTarget { return nil }

// mergeOpenAPI makes what serves the documents of this server together with those of others.
func (r *remoteParts) mergeOpenAPI(front Front) error {
	target := own{genericapiserver.NewEmptyDelegateWithCustomHandler(front.Director)}
	merged := mux.NewPathRecorderMux("aggregation")
	v2 := openapiaggregator.NewDownloader()
	specs, err := openapiaggregator.BuildAndRegisterAggregator(&v2, target, nil, front.OpenAPI, merged)
	if err != nil {
		return fmt.Errorf("merge OpenAPI documents: %w", err)
	}
	proxier, err := openapiv3aggregator.BuildAndRegisterAggregator(openapiv3aggregator.NewDownloader(), target, nil, nil, merged)
	if err != nil {
		return fmt.Errorf("merge OpenAPI documents of version 3: %w", err)
	}
	r.v2, r.v3, r.openAPI = openapi.NewAggregationController(&v2, specs), openapiv3.NewAggregationController(proxier), merged
	return nil
}

// hostRoutes lead to other servers. They never change.
type hostRoutes struct {
	versions map[schema.GroupVersion]*host
	groups   map[string]http.Handler // say which versions there are
	openAPI  http.Handler
}

// handler returns what answers requests for a path, nil if that is this server.
func (r *hostRoutes) handler(path string) http.Handler {
	if path == catalog.PathV2 || path == catalog.PathV3 || strings.HasPrefix(path, catalog.PathV3+"/") {
		return r.openAPI
	}
	rest, ok := strings.CutPrefix(path, "/apis/")
	if !ok {
		return nil
	}
	group, rest, _ := strings.Cut(rest, "/")
	version, _, _ := strings.Cut(rest, "/")
	if version == "" {
		return r.groups[group]
	}
	if to := r.versions[schema.GroupVersion{Group: group, Version: version}]; to != nil {
		return to
	}
	return nil
}
