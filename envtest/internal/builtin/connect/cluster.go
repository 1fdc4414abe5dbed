// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// AttachNode adds nodes/proxy.
func AttachNode(a *kind.Served) (map[string]rest.Storage, error) {
	nodes := nodeConnections{func() rest.Getter { return a.Store }}
	return map[string]rest.Storage{"proxy": proxyREST(func() *corev1.NodeProxyOptions { return &corev1.NodeProxyOptions{} },
		func(o *corev1.NodeProxyOptions) string { return o.Path }, nodes.address)}, nil
}

// nodeConnections is nodes/proxy, which leads to the kubelet or, with another port, to what listens there.
type nodeConnections struct{ nodes kind.Getter }

// address returns where the kubelet of a Node is. Id is the Node's name, name:port or scheme:name:port.
func (c nodeConnections) address(ctx context.Context, id string) (place, error) {
	scheme, name, port, ok := utilnet.SplitSchemeNamePort(id)
	if !ok {
		return place{}, apierrors.NewBadRequest(fmt.Sprintf("invalid node request %q", id))
	}
	at, err := kubelet(ctx, c.nodes, name)
	if err != nil {
		return place{}, err
	}
	if err := publicHost(ctx, at.host); err != nil {
		return place{}, apierrors.NewBadRequest(err.Error())
	}
	if port != "" && port != at.port {
		at.scheme, at.port = scheme, port
	}
	return at, nil
}

// ServiceConnections is services/proxy, which leads to a Pod behind a Service.
type ServiceConnections struct{ Services, Endpoints, Pods kind.Getter }

func (c ServiceConnections) Proxy() rest.Storage {
	return proxyREST(func() *corev1.ServiceProxyOptions { return &corev1.ServiceProxyOptions{} },
		func(o *corev1.ServiceProxyOptions) string { return o.Path }, c.address)
}

// address returns where a Pod behind a Service is. Id is the Service's name, name:port or scheme:name:port, where the port is a
// name or a number.
func (c ServiceConnections) address(ctx context.Context, id string) (place, error) {
	scheme, name, port, ok := utilnet.SplitSchemeNamePort(id)
	if !ok {
		return place{}, apierrors.NewBadRequest(fmt.Sprintf("invalid service request %q", id))
	}
	port, err := c.portName(ctx, name, port)
	if err != nil {
		return place{}, err
	}
	//lint:ignore SA1019 kube-apiserver asks these, and not EndpointSlices
	endpoints, err := kind.GetOne[*corev1.Endpoints](ctx, c.Endpoints(), name)
	if err != nil {
		return place{}, err
	}
	if len(endpoints.Subsets) == 0 {
		return place{}, apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", name))
	}
	for _, i := range rand.Perm(len(endpoints.Subsets)) {
		if at, found := c.member(ctx, &endpoints.Subsets[i], port); found {
			at.scheme = scheme
			return at, nil
		}
	}
	return place{}, apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", id))
}

// portName returns the name of the port of a Service that has this number.
func (c ServiceConnections) portName(ctx context.Context, name, port string) (string, error) {
	number, err := strconv.ParseInt(port, 10, 64)
	if err != nil {
		return port, nil
	}
	service, err := kind.GetOne[*corev1.Service](ctx, c.Services(), name)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return int64(p.Port) == number })
	if i < 0 {
		return "", apierrors.NewServiceUnavailable(fmt.Sprintf("no service port %d found for service %q", number, name))
	}
	return service.Spec.Ports[i].Name, nil
}

// member returns the address of a Pod of a subset that has the port.
//
//lint:ignore SA1019 kube-apiserver asks these, and not EndpointSlices
func (c ServiceConnections) member(ctx context.Context, subset *corev1.EndpointSubset, port string) (place, bool) {
	i := slices.IndexFunc(subset.Ports, func(p corev1.EndpointPort) bool { return p.Name == port })
	if i < 0 {
		return place{}, false
	}
	for _, n := range rand.Perm(len(subset.Addresses)) {
		if address := &subset.Addresses[n]; c.isPod(ctx, address) == nil {
			return place{"", address.IP, strconv.Itoa(int(subset.Ports[i].Port)), outbound}, true
		}
	}
	return place{}, false
}

// isPod returns an error unless an address is that of a Pod in the namespace of the request.
func (c ServiceConnections) isPod(ctx context.Context, address *corev1.EndpointAddress) error {
	of := address.TargetRef
	if of == nil || of.Namespace != request.NamespaceValue(ctx) {
		return errors.New("the address is of no Pod of the namespace")
	}
	pod, err := kind.GetOne[*corev1.Pod](ctx, c.Pods(), of.Name)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(pod.Status.PodIPs, func(ip corev1.PodIP) bool { return ip.IP == address.IP }) {
		return errors.New("the Pod has another address")
	}
	return nil
}
