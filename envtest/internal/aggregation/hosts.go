// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregation

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/apiserver/pkg/util/proxy"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	remoteavailability "k8s.io/kube-aggregator/pkg/controllers/status/remote"

	"github.com/tarn-dev/tarn/envtest/internal/catalog"
	"github.com/tarn-dev/tarn/envtest/internal/serving"
)

// hosts are the other servers to which APIServices lead. The registration controller calls AddAPIService and RemoveAPIService from
// one goroutine.
type hosts struct {
	start       func() (*remoteParts, error) // starts the controllers of other servers
	credentials func() (cert, key []byte)
	catalog     *catalog.Catalog
	front       Front // set before the server serves

	remote *remoteParts               // of that goroutine; nil before the first host
	routes atomic.Pointer[hostRoutes] // nil if there is no host
}

var _ aggregatorapiserver.APIHandlerManager = (*hosts)(nil)

// AddAPIService implements aggregatorapiserver.APIHandlerManager: it adds an APIService, or changes it.
func (s *hosts) AddAPIService(service *apiregistrationv1.APIService) error {
	if service.Spec.Service == nil {
		s.RemoveAPIService(service.Name)
		return nil
	}
	if s.remote == nil {
		remote, err := s.start()
		if err != nil {
			return err
		}
		s.remote = remote
	}
	r := s.remote
	to := r.hosts[service.Name]
	if to == nil {
		to = &host{resolver: r.resolver}
		to.set(service, s.credentials)
		r.hosts[service.Name] = to
		r.v2.AddAPIService(to, service)
		r.v3.AddAPIService(to, service)
		r.discovery.AddAPIService(service, to)
	} else {
		to.set(service, s.credentials)
		r.v2.UpdateAPIService(to, service)
		r.v3.UpdateAPIService(to, service)
		r.discovery.AddAPIService(service, alwaysAvailable{to})
	}
	r.services[service.Name] = service
	s.reroute()
	return nil
}

// RemoveAPIService implements aggregatorapiserver.APIHandlerManager.
func (s *hosts) RemoveAPIService(name string) {
	if s.remote == nil || s.remote.hosts[name] == nil {
		return
	}
	s.remote.discovery.RemoveAPIService(name)
	s.remote.v2.RemoveAPIService(name)
	s.remote.v3.RemoveAPIService(name)
	s.remote.hosts[name].forget()
	delete(s.remote.hosts, name)
	delete(s.remote.services, name)
	s.reroute()
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

// ListedPaths implements routes.ListedPathProvider. Paths of other servers are listed even while these are away.
func (s *hosts) ListedPaths() []string {
	var paths []string
	if to := s.routes.Load(); to != nil {
		for gv := range to.versions {
			paths = append(paths, "/apis/"+gv.Group, "/apis/"+gv.String())
		}
	}
	return paths
}

// reroute makes the routes anew.
func (s *hosts) reroute() {
	if len(s.remote.hosts) == 0 {
		s.routes.Store(nil)
		return
	}
	to := &hostRoutes{versions: map[schema.GroupVersion]*host{}, groups: map[string]http.Handler{}, openAPI: s.remote.openAPI}
	for name, host := range s.remote.hosts {
		to.versions[helper.APIServiceNameToGroupVersion(name)] = host
	}
	for _, services := range helper.SortedByGroupAndVersion(slices.Collect(maps.Values(s.remote.services))) {
		group := services[0].Spec.Group
		to.groups[group] = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { s.catalog.ServeGroup(group, w, req) })
	}
	s.routes.Store(to)
}

// forget closes connections to the hosts that nobody uses.
func (s *hosts) forget() {
	if to := s.routes.Load(); to != nil {
		for _, host := range to.versions {
			host.forget()
		}
	}
}
