// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

//lint:ignore SA1019 Endpoints are served as long as a kube-apiserver serves them.
func DefaultEndpoints(endpoints *corev1.Endpoints) {
	//lint:ignore SA1019 Endpoints are served as long as a kube-apiserver serves them.
	kind.Each(endpoints.Subsets, func(s *corev1.EndpointSubset) {
		kind.Each(s.Ports, func(p *corev1.EndpointPort) { kind.Unset(&p.Protocol, corev1.ProtocolTCP) })
	})
}

//lint:ignore SA1019 Endpoints are served as long as a kube-apiserver serves them.
func EndpointsCells(endpoints *corev1.Endpoints) []any {
	var addresses []string
	for i := range endpoints.Subsets {
		subset := &endpoints.Subsets[i]
		for _, address := range subset.Addresses {
			if len(subset.Ports) == 0 {
				addresses = append(addresses, address.IP)
			}
		}
		for _, port := range subset.Ports {
			for _, address := range subset.Addresses {
				addresses = append(addresses, net.JoinHostPort(address.IP, strconv.Itoa(int(port.Port))))
			}
		}
	}
	return []any{kind.OrNone(kind.SomeOf(addresses, func(n int) string { return fmt.Sprintf(" + %d more...", n) })), kind.AgeOf(endpoints)}
}

// CheckEndpointAddress reports an address of the wrong family at all addresses, as a kube-apiserver does.
func CheckEndpointAddress(f *kind.Findings, address string, family discoveryv1.AddressType, all, at *field.Path) {
	if family == discoveryv1.AddressTypeFQDN {
		f.Add(validation.IsFullyQualifiedDomainName(at, address))
		return
	}
	if family != discoveryv1.AddressTypeIPv4 && family != discoveryv1.AddressTypeIPv6 {
		return
	}
	wrong := validation.IsValidIPForLegacyField(at, address, true, nil)
	if family == discoveryv1.AddressTypeIPv6 {
		wrong = validation.IsValidIP(at, address)
	}
	if f.Add(wrong); len(wrong) > 0 {
		return
	}
	ip, err := netip.ParseAddr(address)
	f.Invalid(err == nil && ip.Is4() != (family == discoveryv1.AddressTypeIPv4), all, address, "must be an "+string(family)+" address")
	checkReachable(f, address, at)
}

// checkReachable refuses addresses at which no endpoint can be.
func checkReachable(f *kind.Findings, address string, at *field.Path) {
	ip := netutils.ParseIPSloppy(address)
	if ip == nil {
		f.Invalid(true, at, address, "must be a valid IP address")
		return
	}
	f.Invalid(ip.IsUnspecified(), at, address, "may not be unspecified ("+address+")")
	f.Invalid(ip.IsLoopback(), at, address, "may not be in the loopback range (127.0.0.0/8, ::1/128)")
	f.Invalid(ip.IsLinkLocalUnicast(), at, address, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")
	f.Invalid(ip.IsLinkLocalMulticast(), at, address, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
}

//lint:ignore SA1019 Endpoints are served as long as a kube-apiserver serves them.
func ValidateEndpoints(endpoints, _ *corev1.Endpoints) field.ErrorList {
	var f kind.Findings
	for i, subset := range endpoints.Subsets {
		at := field.NewPath("subsets").Index(i)
		f.Need(len(subset.Addresses)+len(subset.NotReadyAddresses) > 0, at)
		for _, addresses := range []struct {
			name string
			list []corev1.EndpointAddress
		}{{"addresses", subset.Addresses}, {"notReadyAddresses", subset.NotReadyAddresses}} {
			for j, address := range addresses.list {
				here := at.Child(addresses.name).Index(j)
				f.Add(validation.IsValidIPForLegacyField(here.Child("ip"), address.IP, true, nil))
				if address.Hostname != "" {
					f.Label(address.Hostname, here.Child("hostname"))
				}
				if address.NodeName != nil {
					f.Messages(apivalidation.NameIsDNSSubdomain(*address.NodeName, false), *address.NodeName, here.Child("nodeName"))
				}
				checkReachable(&f, address.IP, here.Child("ip"))
			}
		}
		for j, port := range subset.Ports {
			here := at.Child("ports").Index(j)
			if f.Need(port.Name != "" || len(subset.Ports) == 1, here.Child("name")); port.Name != "" {
				f.Label(port.Name, here.Child("name"))
			}
			f.Messages(validation.IsValidPortNum(int(port.Port)), port.Port, here.Child("port"))
			kind.Choice(&f, port.Protocol, here.Child("protocol"), corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)
			if port.AppProtocol != nil {
				f.Messages(validation.IsQualifiedName(*port.AppProtocol), *port.AppProtocol, here.Child("appProtocol"))
			}
		}
	}
	return f.List
}

// WarnEndpoints leaves out the Endpoints that the controller has made.
//
//lint:ignore SA1019 Endpoints are served as long as a kube-apiserver serves them.
func WarnEndpoints(w *kind.Warnings, endpoints, _ *corev1.Endpoints) {
	if endpoints.Labels["endpoints.kubernetes.io/managed-by"] == "endpoint-controller" {
		return
	}
	for i, subset := range endpoints.Subsets {
		at := field.NewPath("subsets").Index(i)
		for j, address := range subset.Addresses {
			w.IP(address.IP, at.Child("addresses").Index(j).Child("ip"))
		}
		for j, address := range subset.NotReadyAddresses {
			w.IP(address.IP, at.Child("notReadyAddresses").Index(j).Child("ip"))
		}
	}
}
