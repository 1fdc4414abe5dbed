// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregation

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/util/proxy"
	corelisters "k8s.io/client-go/listers/core/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	"k8s.io/kube-aggregator/pkg/controllers/openapi"
	openapiaggregator "k8s.io/kube-aggregator/pkg/controllers/openapi/aggregator"
	"k8s.io/kube-aggregator/pkg/controllers/openapiv3"
	openapiv3aggregator "k8s.io/kube-aggregator/pkg/controllers/openapiv3/aggregator"
	remoteavailability "k8s.io/kube-aggregator/pkg/controllers/status/remote"

	"github.com/tarn-dev/tarn/envtest/internal/catalog"
	"github.com/tarn-dev/tarn/envtest/internal/serving"
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

var _ aggregatorapiserver.APIHandlerManager = (*Aggregation)(nil)

// AddAPIService implements aggregatorapiserver.APIHandlerManager: it adds an APIService, or changes it.
func (a *Aggregation) AddAPIService(service *apiregistrationv1.APIService) error {
	if service.Spec.Service == nil {
		a.RemoveAPIService(service.Name)
		return nil
	}
	if a.remote == nil {
		remote, err := a.beginRemote()
		if err != nil {
			return err
		}
		a.remote = remote
	}
	r := a.remote
	to := r.hosts[service.Name]
	if to == nil {
		to = &host{resolver: r.resolver}
		to.set(service, a.config.Credentials)
		r.hosts[service.Name] = to
		r.v2.AddAPIService(to, service)
		r.v3.AddAPIService(to, service)
		r.discovery.AddAPIService(service, to)
	} else {
		to.set(service, a.config.Credentials)
		r.v2.UpdateAPIService(to, service)
		r.v3.UpdateAPIService(to, service)
		r.discovery.AddAPIService(service, alwaysAvailable{to})
	}
	r.services[service.Name] = service
	a.reroute()
	return nil
}

// RemoveAPIService implements aggregatorapiserver.APIHandlerManager.
func (a *Aggregation) RemoveAPIService(name string) {
	if a.remote == nil || a.remote.hosts[name] == nil {
		return
	}
	a.remote.discovery.RemoveAPIService(name)
	a.remote.v2.RemoveAPIService(name)
	a.remote.v3.RemoveAPIService(name)
	a.remote.hosts[name].forget()
	delete(a.remote.hosts, name)
	delete(a.remote.services, name)
	a.reroute()
}

// beginRemote starts the controllers of other servers. They end with the server.
func (a *Aggregation) beginRemote() (*remoteParts, error) {
	done, known := a.config.Run.Done(), a.config.Clients.Informers
	services, slicesOf := known.Core().V1().Services(), known.Discovery().V1().EndpointSlices()
	r := &remoteParts{hosts: map[string]*host{}, services: map[string]*apiregistrationv1.APIService{}}
	getter, err := proxy.NewEndpointSliceIndexerGetter(slicesOf)
	if err != nil {
		return nil, fmt.Errorf("index endpoints for APIServices: %w", err)
	}
	byAddress, byEndpoint := aggregatorapiserver.NewClusterIPServiceResolver(services.Lister()),
		aggregatorapiserver.NewEndpointServiceResolver(services.Lister(), getter)
	switch {
	case a.config.Resolver != nil:
		r.resolver = a.config.Resolver
	case a.config.Routing == EndpointAddress:
		r.resolver = byEndpoint
	case a.config.Routing == ClusterIPAddress:
		r.resolver = byAddress
	default:
		r.resolver = routable{services.Lister(), byAddress, byEndpoint}
	}
	r.resolver = aggregatorapiserver.NewLoopbackServiceResolver(r.resolver, &url.URL{Scheme: "https", Host: a.config.Address})
	client := a.parts.client.ApiregistrationV1()
	available, err := remoteavailability.New(a.parts.informers.Apiregistration().V1().APIServices(), services, slicesOf, client, nil,
		a.config.Credentials, r.resolver, a.parts.metrics)
	if err != nil {
		return nil, fmt.Errorf("create the controller of other servers' APIServices: %w", err)
	}
	if err := r.mergeOpenAPI(a.front); err != nil {
		return nil, err
	}
	r.discovery = aggregatorapiserver.NewDiscoveryManager(a.config.Catalog.From(aggregated.AggregatorSource))
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state == aggregationEnded {
		return nil, serving.ErrStopping
	}
	known.Start(done)
	a.tasks.Go(func() { available.Run(aggregationWorkers, done) })
	a.tasks.Go(func() { r.discovery.Run(done, nil) })
	a.tasks.Go(func() { r.v2.Run(done) })
	a.tasks.Go(func() { r.v3.Run(done) })
	return r, nil
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

// own is the server as the first of those whose documents are merged.
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

// handler is who answers requests for a path, nil if it is this server.
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

// ListedPaths implements routes.ListedPathProvider. What other servers serve is listed also while they are away.
func (a *Aggregation) ListedPaths() []string {
	var paths []string
	if to := a.routes.Load(); to != nil {
		for gv := range to.versions {
			paths = append(paths, "/apis/"+gv.Group, "/apis/"+gv.String())
		}
	}
	return paths
}

// reroute makes the routes anew.
func (a *Aggregation) reroute() {
	if len(a.remote.hosts) == 0 {
		a.routes.Store(nil)
		return
	}
	to := &hostRoutes{versions: map[schema.GroupVersion]*host{}, groups: map[string]http.Handler{}, openAPI: a.remote.openAPI}
	for name, host := range a.remote.hosts {
		to.versions[helper.APIServiceNameToGroupVersion(name)] = host
	}
	for _, services := range helper.SortedByGroupAndVersion(slices.Collect(maps.Values(a.remote.services))) {
		group := services[0].Spec.Group
		to.groups[group] = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { a.config.Catalog.ServeGroup(group, w, req) })
	}
	a.routes.Store(to)
}
