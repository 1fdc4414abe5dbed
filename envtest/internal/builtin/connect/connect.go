// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// The subresources here lead to a kubelet, a Pod or a Service. Nothing of this is there unless a test runs it. The answer then,
// and the address otherwise, are those of kube-apiserver's pkg/registry/core. An upgraded connection is passed on as it is: one
// from WebSocket to SPDY is not translated.

// connectREST is a subresource whose requests lead elsewhere.
type connectREST struct {
	options func() runtime.Object // the empty query parameters
	methods []string
	subpath bool // the rest of the path is the query parameter path
	// connect returns the handler of a request for the object called name.
	connect func(ctx context.Context, name string, options runtime.Object, to rest.Responder) (http.Handler, error)
}

var _ rest.Connecter = connectREST{}

func (r connectREST) New() runtime.Object { return r.options() }

func (r connectREST) Destroy() {}

func (r connectREST) ConnectMethods() []string { return r.methods }

func (r connectREST) NewConnectOptions() (_ runtime.Object, subpath bool, parameter string) {
	if r.subpath {
		return r.options(), true, "path"
	}
	return r.options(), false, ""
}

func (r connectREST) Connect(ctx context.Context, name string, options runtime.Object, to rest.Responder) (http.Handler, error) {
	return r.connect(ctx, name, options, to)
}

var (
	proxyMethods  = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodHead, http.MethodOptions}
	streamMethods = []string{http.MethodGet, http.MethodPost}
)

// place is where requests lead.
type place struct {
	scheme, host, port string
	transport          http.RoundTripper
}

func (p place) url(path, query string) *url.URL {
	host := p.host
	if p.port != "" {
		host = net.JoinHostPort(p.host, p.port)
	}
	return &url.URL{Scheme: p.scheme, Host: host, Path: path, RawQuery: query}
}

// proxyREST is a subresource that passes requests on to where address says that an object is.
func proxyREST[O runtime.Object](empty func() O, path func(O) string, address func(ctx context.Context, id string) (place, error)) connectREST {
	return connectREST{
		options: func() runtime.Object { return empty() }, methods: proxyMethods, subpath: true,
		connect: func(ctx context.Context, id string, options runtime.Object, to rest.Responder) (http.Handler, error) {
			at, err := address(ctx, id)
			if err != nil {
				return nil, err
			}
			below := utilnet.JoinPreservingTrailingSlash("", path(kind.MustBe[O](options)))
			return pass(at.url(below, ""), at.transport, false, to), nil
		},
	}
}

// pass returns a handler that passes a request on. A stream must be upgraded, and is; the answers of others are rewritten, so that
// their links lead through the API server.
func pass(location *url.URL, transport http.RoundTripper, stream bool, to rest.Responder) http.Handler {
	return proxy.NewUpgradeAwareHandler(location, transport, !stream, stream, proxy.NewErrorResponder(to))
}

// outbound is the transport to kubelets, Pods and Services. Nobody knows the certificates that those in tests have, and
// connections are not kept, so that none is left when the server ends.
var outbound http.RoundTripper = &http.Transport{
	TLSClientConfig:     &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // as kube-apiserver without --kubelet-certificate-authority
	DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
	TLSHandshakeTimeout: 10 * time.Second,
	DisableKeepAlives:   true,
}

// kubeletPort is where the kubelet of a Node listens that does not say it.
const kubeletPort = 10250

// kubeletAddresses are the types of addresses by which a kubelet is called, the best first.
var kubeletAddresses = []corev1.NodeAddressType{
	corev1.NodeHostName, corev1.NodeInternalDNS, corev1.NodeInternalIP, corev1.NodeExternalDNS, corev1.NodeExternalIP,
}

// kubelet returns where the kubelet of a Node is.
func kubelet(ctx context.Context, nodes kind.Getter, name string) (place, error) {
	node, err := kind.GetOne[*corev1.Node](ctx, nodes(), name)
	if err != nil {
		return place{}, err
	}
	for _, wanted := range kubeletAddresses {
		i := slices.IndexFunc(node.Status.Addresses, func(a corev1.NodeAddress) bool { return a.Type == wanted })
		if i < 0 {
			continue
		}
		port := int(node.Status.DaemonEndpoints.KubeletEndpoint.Port)
		if port <= 0 {
			port = kubeletPort
		}
		return place{"https", node.Status.Addresses[i].Address, strconv.Itoa(port), outbound}, nil
	}
	return place{}, fmt.Errorf("no preferred addresses found; known addresses: %v", node.Status.Addresses)
}

// isPublic reports whether requests may be passed to an address: not to the machine of the API server, nor to many.
func isPublic(ip net.IP) bool { return ip != nil && ip.IsGlobalUnicast() }

// publicHost returns an error if requests may not be passed to a host.
func publicHost(ctx context.Context, host string) error {
	found, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	if err == nil && len(found) == 0 {
		err = errors.New("no addresses for hostname")
	}
	if err != nil {
		return err
	}
	for _, address := range found {
		if !isPublic(address.IP) {
			return errNotAllowed
		}
	}
	return nil
}

var errNotAllowed = errors.New("address not allowed")

// mayCreate refuses a request by which a stream begins unless the user may create what it is for: a WebSocket begins
// with GET.
func mayCreate(ctx context.Context, access *kind.Access) error {
	info, ok := request.RequestInfoFrom(ctx)
	if !ok {
		return apierrors.NewInternalError(errors.New("no request info in context"))
	}
	if info.Verb == "create" || access == nil {
		return nil
	}
	asked, err := filters.GetAuthorizerAttributes(ctx)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("error building authorizer attributes: %w", err))
	}
	decision, reason, err := access.Authorizer.Authorize(ctx, toCreate{asked})
	if err != nil {
		return err
	}
	if decision != authorizer.DecisionAllow {
		return apierrors.NewForbidden(schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}, info.Name, errors.New(reason))
	}
	return nil
}

// toCreate is a request with the verb create.
type toCreate struct{ authorizer.Attributes }

func (toCreate) GetVerb() string { return "create" }
