// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregation

import (
	"errors"
	"net/http"
	"net/url"
	"sync/atomic"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	proxyutil "k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/client-go/transport"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	remoteavailability "k8s.io/kube-aggregator/pkg/controllers/status/remote"
)

// host is another server, to which an APIService leads. It passes requests on in the name of their
// user.
type host struct {
	resolver aggregatorapiserver.ServiceResolver
	address  atomic.Pointer[hostAddress] // replaced when the APIService changes
}

// hostAddress says how to reach a host. It never changes.
type hostAddress struct {
	service   apiregistrationv1.ServiceReference
	available bool
	transport http.RoundTripper
	err       error // of making the transport
}

// set follows a change of the APIService. credentials are the certificate and the key by which the host knows this server.
func (h *host) set(service *apiregistrationv1.APIService, credentials func() (cert, key []byte)) {
	cert, key := credentials()
	to := &hostAddress{
		service: *service.Spec.Service.DeepCopy(), available: helper.IsAPIServiceConditionTrue(service, apiregistrationv1.Available),
	}
	to.transport, to.err = transport.New(remoteavailability.BuildTransportConfig(nil, cert, key, service))
	h.address.Store(to)
}

// ServeHTTP implements http.Handler.
func (h *host) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if !h.address.Load().available {
		http.Error(w, "service unavailable", http.StatusServiceUnavailable)
		return
	}
	h.pass(w, req)
}

// alwaysAvailable is a host for checks of its availability.
type alwaysAvailable struct{ *host }

// ServeHTTP implements http.Handler.
func (h alwaysAvailable) ServeHTTP(w http.ResponseWriter, req *http.Request) { h.pass(w, req) }

// pass passes a request on. Errors are those of kube-aggregator.
func (h *host) pass(w http.ResponseWriter, req *http.Request) {
	to := h.address.Load()
	who, ok := request.UserFrom(req.Context())
	switch {
	case to.err != nil:
		http.Error(w, to.err.Error(), http.StatusInternalServerError)
		return
	case !ok:
		http.Error(w, "missing user", http.StatusInternalServerError)
		return
	}
	resolved, err := h.resolver.ResolveEndpoint(to.service.Namespace, to.service.Name, *to.service.Port)
	if err != nil {
		http.Error(w, "service unavailable", http.StatusServiceUnavailable)
		return
	}
	location := &url.URL{Scheme: "https", Host: resolved.Host, Path: req.URL.Path, RawQuery: req.URL.Query().Encode()}
	passed, cancel := proxyutil.NewRequestForProxy(location, req)
	defer cancel()
	uid := uidOf(who)
	upgrade := req.Header.Get("Upgrade") != ""
	if upgrade { // goes around the transport
		transport.SetAuthProxyHeaders(passed, who.GetName(), uid, who.GetGroups(), who.GetExtra())
	}
	signed := transport.NewAuthProxyRoundTripper(who.GetName(), uid, who.GetGroups(), who.GetExtra(), to.transport)
	handler := proxy.NewUpgradeAwareHandler(location, signed, true, upgrade, unreachable{})
	handler.RejectForwardingRedirects = true
	handler.ServeHTTP(w, passed)
}

// forget closes connections to the host that nobody uses.
func (h *host) forget() {
	if to := h.address.Load(); to.transport != nil {
		utilnet.CloseIdleConnectionsFor(to.transport)
	}
}

// uidOf is what other servers are told of the user's UID.
func uidOf(who user.Info) string {
	if utilfeature.DefaultFeatureGate.Enabled(features.RemoteRequestHeaderUID) {
		return who.GetUID()
	}
	return ""
}

// unreachable answers when a host does not. It implements proxy.ErrorResponder.
type unreachable struct{}

// Error implements proxy.ErrorResponder.
func (unreachable) Error(w http.ResponseWriter, _ *http.Request, err error) {
	if err == nil {
		err = errors.New("service unavailable")
	}
	http.Error(w, err.Error(), http.StatusServiceUnavailable)
}
