// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package bootstrap

//lint:file-ignore SA1019 Endpoints are what a kube-apiserver makes, deprecated or not.

import (
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

// advertised is the address by which Pods would reach the server: the machine's, as with kube-apiserver. A server of tests may
// listen on the loopback address alone, but Endpoints must not have that.
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
