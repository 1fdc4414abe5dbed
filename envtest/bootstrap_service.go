// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

//lint:file-ignore SA1019 Endpoints are what a kube-apiserver makes, deprecated or not.

import (
	"encoding/json"
	"fmt"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/utils/ptr"
)

const (
	// serviceIP is the first address of the range from which kube-apiserver gives out cluster addresses by default.
	serviceIP = "10.0.0.1"
	// serviceName is the name of the Service of the server, and of all that belongs to it.
	serviceName = "kubernetes"
	portName    = "https"
)

// port is where the server listens.
func (a *access) port() (int32, error) {
	_, text, err := net.SplitHostPort(a.address)
	if err != nil {
		return 0, fmt.Errorf("read the server's address: %w", err)
	}
	port, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("read the server's port: %w", err)
	}
	return int32(port), nil
}

// advertised is the address by which Pods would reach the server: as with kube-apiserver, that of the machine, though a server
// of tests may listen on the loopback address alone, which Endpoints must not have.
func advertised() string {
	ip, err := utilnet.ChooseHostInterface()
	if err != nil || ip.To4() == nil {
		return serviceIP // of a machine without a network; nothing is there
	}
	return ip.String()
}

// apiService is the Service under which Pods would reach the server.
func apiService(port int32) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name:   serviceName,
			Labels: map[string]string{"component": "apiserver", "provider": "kubernetes"},
		},
		Spec: corev1.ServiceSpec{
			Type:       corev1.ServiceTypeClusterIP,
			ClusterIP:  serviceIP,
			ClusterIPs: []string{serviceIP},
			Ports: []corev1.ServicePort{{
				Name: portName, Protocol: corev1.ProtocolTCP, Port: 443, TargetPort: intstr.FromInt32(port),
			}},
		},
	}
}

// apiEndpoints says where the Service leads.
func apiEndpoints(port int32) *corev1.Endpoints {
	return &corev1.Endpoints{
		ObjectMeta: metav1.ObjectMeta{Name: serviceName, Labels: map[string]string{discoveryv1.LabelSkipMirror: "true"}},
		Subsets: []corev1.EndpointSubset{{
			Addresses: []corev1.EndpointAddress{{IP: advertised()}},
			Ports:     []corev1.EndpointPort{{Name: portName, Port: port, Protocol: corev1.ProtocolTCP}},
		}},
	}
}

// apiEndpointSlice says the same in the newer form.
func apiEndpointSlice(port int32) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: serviceName, Labels: map[string]string{discoveryv1.LabelServiceName: serviceName}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{advertised()}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
		}},
		Ports: []discoveryv1.EndpointPort{{Name: ptr.To(portName), Port: &port, Protocol: ptr.To(corev1.ProtocolTCP)}},
	}
}

// trust is the ConfigMap by which other API servers believe the users of this one: who signs their certificates, and how a
// proxy in front says who they are.
func (a *access) trust() (*corev1.ConfigMap, error) {
	data := map[string]string{}
	if a.clientCA != nil {
		data["client-ca-file"] = string(a.clientCA.CurrentCABundleContent())
	}
	if header := a.front.header; header != nil {
		data["requestheader-client-ca-file"] = string(header.CAContentProvider.CurrentCABundleContent())
		for key, values := range map[string][]string{
			"requestheader-username-headers":     header.UsernameHeaders.Value(),
			"requestheader-uid-headers":          header.UIDHeaders.Value(),
			"requestheader-group-headers":        header.GroupHeaders.Value(),
			"requestheader-extra-headers-prefix": header.ExtraHeaderPrefixes.Value(),
			"requestheader-allowed-names":        header.AllowedClientNames.Value(),
		} {
			list, err := json.Marshal(values)
			if err != nil {
				return nil, fmt.Errorf("encode %s: %w", key, err)
			}
			data[key] = string(list)
		}
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "extension-apiserver-authentication"}, Data: data,
	}, nil
}
