// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

// The rules are those of kube-apiserver's pkg/apis/networking/validation and pkg/apis/discovery/validation.

// The most that one EndpointSlice can have.
const (
	mostEndpoints = 1000
	mostAddresses = 100
	mostPorts     = 20000
	mostHints     = 8
	mostTopology  = 16
)

func validateEndpointSlice(slice, old *discoveryv1.EndpointSlice) field.ErrorList {
	var f faults
	family := field.NewPath("addressType")
	choice(&f, slice.AddressType, family, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6, discoveryv1.AddressTypeFQDN)
	if old != nil {
		f.add(frozen(slice.AddressType, old.AddressType, family))
	}
	same := old != nil && apiequality.Semantic.DeepEqual(slice.Endpoints, old.Endpoints)
	f.add(tooMany(len(slice.Endpoints), mostEndpoints, field.NewPath("endpoints")))
	for i := range slice.Endpoints {
		if same {
			break
		}
		f.endpoint(&slice.Endpoints[i], slice.AddressType, field.NewPath("endpoints").Index(i))
	}
	f.add(tooMany(len(slice.Ports), mostPorts, field.NewPath("ports")))
	names := sets.New[string]()
	for i, port := range slice.Ports {
		at := field.NewPath("ports").Index(i)
		name := ""
		if port.Name != nil {
			name = *port.Name
		}
		if name != "" {
			f.label(name, at.Child("name"))
		}
		f.unique(name, names, at.Child("name"))
		if f.need(port.Protocol != nil, at.Child("protocol")); port.Protocol != nil {
			known(&f, *port.Protocol, at.Child("protocol"), corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)
		}
		if port.AppProtocol != nil {
			f.messages(validation.IsQualifiedName(*port.AppProtocol), *port.AppProtocol, at.Child("appProtocol"))
		}
	}
	return f.list
}

func (f *faults) endpoint(e *discoveryv1.Endpoint, family discoveryv1.AddressType, at *field.Path) {
	addresses := at.Child("addresses")
	f.need(len(e.Addresses) > 0, addresses)
	f.add(tooMany(len(e.Addresses), mostAddresses, addresses))
	for i, address := range e.Addresses {
		f.endpointAddress(address, family, addresses, addresses.Index(i))
	}
	if e.NodeName != nil {
		f.messages(apivalidation.NameIsDNSSubdomain(*e.NodeName, false), *e.NodeName, at.Child("nodeName"))
	}
	topology := at.Child("deprecatedTopology")
	f.add(tooMany(len(e.DeprecatedTopology), mostTopology, topology))
	f.add(metavalidation.ValidateLabels(e.DeprecatedTopology, topology))
	if e.Hostname != nil {
		f.label(*e.Hostname, at.Child("hostname"))
	}
	if e.Hints == nil {
		return
	}
	zones, nodes := sets.New[string](), sets.New[string]()
	f.add(tooMany(len(e.Hints.ForZones), mostHints, at.Child("hints", "forZones")))
	for i, zone := range e.Hints.ForZones {
		here := at.Child("hints", "forZones").Index(i).Child("name")
		f.unique(zone.Name, zones, here)
		f.messages(validation.IsValidLabelValue(zone.Name), zone.Name, here)
	}
	f.add(tooMany(len(e.Hints.ForNodes), mostHints, at.Child("hints", "forNodes")))
	for i, node := range e.Hints.ForNodes {
		here := at.Child("hints", "forNodes").Index(i).Child("name")
		f.unique(node.Name, nodes, here)
		f.messages(apivalidation.NameIsDNSSubdomain(node.Name, false), node.Name, here)
	}
}

// endpointAddress reports an address of the wrong family at all addresses, as a kube-apiserver does.
func (f *faults) endpointAddress(address string, family discoveryv1.AddressType, all, at *field.Path) {
	if family == discoveryv1.AddressTypeFQDN {
		f.add(validation.IsFullyQualifiedDomainName(at, address))
		return
	}
	if family != discoveryv1.AddressTypeIPv4 && family != discoveryv1.AddressTypeIPv6 {
		return
	}
	wrong := validation.IsValidIPForLegacyField(at, address, true, nil)
	if family == discoveryv1.AddressTypeIPv6 {
		wrong = validation.IsValidIP(at, address)
	}
	if f.add(wrong); len(wrong) > 0 {
		return
	}
	ip, err := netip.ParseAddr(address)
	f.invalid(err == nil && ip.Is4() != (family == discoveryv1.AddressTypeIPv4), all, address, "must be an "+string(family)+" address")
	f.reachable(address, at)
}

// reachable refuses addresses at which no endpoint can be.
func (f *faults) reachable(address string, at *field.Path) {
	ip := netutils.ParseIPSloppy(address)
	if ip == nil {
		f.invalid(true, at, address, "must be a valid IP address")
		return
	}
	f.invalid(ip.IsUnspecified(), at, address, "may not be unspecified ("+address+")")
	f.invalid(ip.IsLoopback(), at, address, "may not be in the loopback range (127.0.0.0/8, ::1/128)")
	f.invalid(ip.IsLinkLocalUnicast(), at, address, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")
	f.invalid(ip.IsLinkLocalMulticast(), at, address, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
}

//lint:ignore SA1019 Endpoints are served as long as a kube-apiserver serves them.
func validateEndpoints(endpoints, _ *corev1.Endpoints) field.ErrorList {
	var f faults
	for i, subset := range endpoints.Subsets {
		at := field.NewPath("subsets").Index(i)
		f.need(len(subset.Addresses)+len(subset.NotReadyAddresses) > 0, at)
		for _, addresses := range []struct {
			name string
			list []corev1.EndpointAddress
		}{{"addresses", subset.Addresses}, {"notReadyAddresses", subset.NotReadyAddresses}} {
			for j, address := range addresses.list {
				here := at.Child(addresses.name).Index(j)
				f.add(validation.IsValidIPForLegacyField(here.Child("ip"), address.IP, true, nil))
				if address.Hostname != "" {
					f.label(address.Hostname, here.Child("hostname"))
				}
				if address.NodeName != nil {
					f.messages(apivalidation.NameIsDNSSubdomain(*address.NodeName, false), *address.NodeName, here.Child("nodeName"))
				}
				f.reachable(address.IP, here.Child("ip"))
			}
		}
		for j, port := range subset.Ports {
			here := at.Child("ports").Index(j)
			if f.need(port.Name != "" || len(subset.Ports) == 1, here.Child("name")); port.Name != "" {
				f.label(port.Name, here.Child("name"))
			}
			f.messages(validation.IsValidPortNum(int(port.Port)), port.Port, here.Child("port"))
			choice(&f, port.Protocol, here.Child("protocol"), corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)
			if port.AppProtocol != nil {
				f.messages(validation.IsQualifiedName(*port.AppProtocol), *port.AppProtocol, here.Child("appProtocol"))
			}
		}
	}
	return f.list
}

func validateNetworkPolicy(policy, _ *networkingv1.NetworkPolicy) field.ErrorList {
	var f faults
	spec, at := &policy.Spec, specPath()
	f.add(labelSelector(&spec.PodSelector, at.Child("podSelector")))
	for i := range spec.Ingress {
		f.policyRule(spec.Ingress[i].Ports, spec.Ingress[i].From, "from", at.Child("ingress").Index(i))
	}
	for i := range spec.Egress {
		f.policyRule(spec.Egress[i].Ports, spec.Egress[i].To, "to", at.Child("egress").Index(i))
	}
	f.invalid(len(spec.PolicyTypes) > 2, at.Child("policyTypes"), spec.PolicyTypes, "may not specify more than two policyTypes")
	for i, policyType := range spec.PolicyTypes {
		known(&f, policyType, at.Child("policyTypes").Index(i), networkingv1.PolicyTypeEgress, networkingv1.PolicyTypeIngress)
	}
	return f.list
}

func (f *faults) policyRule(ports []networkingv1.NetworkPolicyPort, peers []networkingv1.NetworkPolicyPeer, side string, at *field.Path) {
	for i := range ports {
		f.policyPort(&ports[i], at.Child("ports").Index(i))
	}
	for i, peer := range peers {
		here := at.Child(side).Index(i)
		f.add(labelSelector(peer.PodSelector, here.Child("podSelector")))
		f.add(labelSelector(peer.NamespaceSelector, here.Child("namespaceSelector")))
		selected := peer.PodSelector != nil || peer.NamespaceSelector != nil
		if peer.IPBlock != nil {
			f.ipBlock(peer.IPBlock, here.Child("ipBlock"))
		}
		f.need(selected || peer.IPBlock != nil, here)
		f.forbid(selected && peer.IPBlock != nil, here, "may not specify both ipBlock and another peer")
	}
}

func (f *faults) policyPort(port *networkingv1.NetworkPolicyPort, at *field.Path) {
	chosen(f, port.Protocol, at.Child("protocol"), corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)
	end := at.Child("endPort")
	switch {
	case port.Port == nil:
		f.invalid(port.EndPort != nil, end, port.EndPort, "may not be specified when `port` is not specified")
		return
	case port.Port.Type == intstr.String:
		f.invalid(port.EndPort != nil, end, port.EndPort, "may not be specified when `port` is non-numeric")
	case port.EndPort != nil:
		f.invalid(*port.EndPort < port.Port.IntVal, end, *port.EndPort, "must be greater than or equal to `port`")
		f.messages(validation.IsValidPortNum(int(*port.EndPort)), *port.EndPort, end)
	}
	f.port(*port.Port, at.Child("port"))
}

func (f *faults) ipBlock(block *networkingv1.IPBlock, at *field.Path) {
	if !f.text(block.CIDR, at.Child("cidr")) {
		return
	}
	f.add(validation.IsValidCIDRForLegacyField(at.Child("cidr"), block.CIDR, true, nil))
	all, err := netip.ParsePrefix(block.CIDR)
	if err != nil {
		return
	}
	for i, except := range block.Except {
		here := at.Child("except").Index(i)
		f.add(validation.IsValidCIDRForLegacyField(here, except, true, nil))
		if part, err := netip.ParsePrefix(except); err == nil {
			f.invalid(!all.Contains(part.Addr()) || all.Bits() >= part.Bits(), here, except, "must be a strict subset of `cidr`")
		}
	}
}

func validateIngress(ingress, old *networkingv1.Ingress) field.ErrorList {
	var f faults
	spec, at := &ingress.Spec, specPath()
	f.invalid(len(spec.Rules) == 0 && spec.DefaultBackend == nil, at, spec.Rules, "either `defaultBackend` or `rules` must be specified")
	if spec.DefaultBackend != nil {
		f.ingressBackend(spec.DefaultBackend, at.Child("defaultBackend"))
	}
	for i, rule := range spec.Rules {
		here := at.Child("rules").Index(i)
		_, err := netip.ParseAddr(rule.Host)
		f.invalid(err == nil, here.Child("host"), rule.Host, "must be a DNS name, not an IP address")
		f.host(rule.Host, here.Child("host"))
		if rule.HTTP == nil {
			continue
		}
		f.need(len(rule.HTTP.Paths) > 0, here.Child("http", "paths"))
		for j := range rule.HTTP.Paths {
			f.ingressPath(&rule.HTTP.Paths[j], here.Child("http", "paths").Index(j))
		}
	}
	for i, tls := range spec.TLS {
		here := at.Child("tls").Index(i)
		for j, host := range tls.Hosts {
			if host == "" {
				f.subdomain(host, here.Child("hosts").Index(j))
			}
			f.host(host, here.Child("hosts").Index(j))
		}
		if tls.SecretName != "" {
			f.subdomain(tls.SecretName, here.Child("secretName"))
		}
	}
	if spec.IngressClassName != nil {
		f.subdomain(*spec.IngressClassName, at.Child("ingressClassName"))
	}
	const annotation = "kubernetes.io/ingress.class"
	named, ok := ingress.Annotations[annotation]
	f.invalid(old == nil && ok && spec.IngressClassName != nil && named != *spec.IngressClassName, field.NewPath("annotations").Child(annotation), named,
		"must match `ingressClassName` when both are specified")
	return f.list
}

// host checks the name of a host, which may begin with "*.".
func (f *faults) host(host string, at *field.Path) {
	switch {
	case host == "":
	case strings.Contains(host, "*"):
		f.messages(validation.IsWildcardDNS1123Subdomain(host), host, at)
	default:
		f.subdomain(host, at)
	}
}

func (f *faults) ingressPath(p *networkingv1.HTTPIngressPath, at *field.Path) {
	if p.PathType == nil {
		f.need(false, at.Child("pathType"))
		return
	}
	here := at.Child("path")
	switch *p.PathType {
	case networkingv1.PathTypeExact, networkingv1.PathTypePrefix:
		f.invalid(!strings.HasPrefix(p.Path, "/"), here, p.Path, "must be an absolute path")
		for _, part := range []string{"//", "/./", "/../", "%2f", "%2F"} {
			f.invalid(strings.Contains(p.Path, part), here, p.Path, "must not contain '"+part+"'")
		}
		for _, end := range []string{"/..", "/."} {
			f.invalid(strings.HasSuffix(p.Path, end), here, p.Path, "cannot end with '"+end+"'")
		}
	case networkingv1.PathTypeImplementationSpecific:
		f.invalid(p.Path != "" && !strings.HasPrefix(p.Path, "/"), here, p.Path, "must be an absolute path")
	default:
		known(f, *p.PathType, at.Child("pathType"), networkingv1.PathTypeExact, networkingv1.PathTypeImplementationSpecific, networkingv1.PathTypePrefix)
	}
	f.ingressBackend(&p.Backend, at.Child("backend"))
}

func (f *faults) ingressBackend(backend *networkingv1.IngressBackend, at *field.Path) {
	service := backend.Service
	switch {
	case service != nil && backend.Resource != nil:
		f.invalid(true, at, "", "cannot set both resource and service backends")
		return
	case backend.Resource != nil:
		f.localReference(backend.Resource.APIGroup, backend.Resource.Kind, backend.Resource.Name, at.Child("resource"))
		return
	case service == nil:
		f.invalid(true, at, "", "resource or service backend is required")
		return
	}
	if f.text(service.Name, at.Child("service", "name")) {
		f.label(service.Name, at.Child("service", "name"))
	}
	named, numbered := service.Port.Name != "", service.Port.Number != 0
	switch {
	case named && numbered:
		f.invalid(true, at, "", "cannot set both port name & port number")
	case named:
		f.messages(validation.IsValidPortName(service.Port.Name), service.Port.Name, at.Child("service", "port", "name"))
	case numbered:
		f.messages(validation.IsValidPortNum(int(service.Port.Number)), service.Port.Number, at.Child("service", "port", "number"))
	default:
		f.need(false, at)
	}
}

// localReference checks a reference to an object of any group.
func (f *faults) localReference(group *string, kind, name string, at *field.Path) {
	if group != nil {
		f.subdomain(*group, at.Child("apiGroup"))
	}
	f.pathSegmentName(kind, at.Child("kind"))
	f.pathSegmentName(name, at.Child("name"))
}

func validateIngressStatus(ingress, old *networkingv1.Ingress) field.ErrorList {
	var f faults
	var before []string
	for _, at := range old.Status.LoadBalancer.Ingress {
		before = append(before, at.IP)
	}
	for i, balancer := range ingress.Status.LoadBalancer.Ingress {
		at := field.NewPath("status", "loadBalancer", "ingress").Index(i)
		f.balancer(balancer.IP, balancer.Hostname, before, at)
	}
	return f.list
}

// balancer checks where a load balancer is: its address, where it need not be better than before, and its name.
func (f *faults) balancer(ip, host string, before []string, at *field.Path) {
	if ip != "" {
		f.add(validation.IsValidIPForLegacyField(at.Child("ip"), ip, true, before))
	}
	if host != "" {
		f.subdomain(host, at.Child("hostname"))
		_, err := netip.ParseAddr(host)
		f.invalid(err == nil, at.Child("hostname"), host, "must be a DNS name, not an IP address")
	}
}

func validateIngressClass(class, old *networkingv1.IngressClass) field.ErrorList {
	var f faults
	at := specPath()
	if len(class.Spec.Controller) > 250 {
		f.list = append(f.list, field.TooLong(at.Child("controller"), "", 250))
	}
	f.add(validation.IsDomainPrefixedPath(at.Child("controller"), class.Spec.Controller))
	if p := class.Spec.Parameters; p != nil {
		at := at.Child("parameters")
		f.localReference(p.APIGroup, p.Kind, p.Name, at)
		if f.need(p.Scope != nil, at.Child("scope")); p.Scope != nil {
			known(&f, *p.Scope, at.Child("scope"), networkingv1.IngressClassParametersReferenceScopeCluster, networkingv1.IngressClassParametersReferenceScopeNamespace)
			switch *p.Scope {
			case networkingv1.IngressClassParametersReferenceScopeNamespace:
				if f.need(p.Namespace != nil, at.Child("namespace")); p.Namespace != nil {
					f.messages(apivalidation.ValidateNamespaceName(*p.Namespace, false), *p.Namespace, at.Child("namespace"))
				}
			case networkingv1.IngressClassParametersReferenceScopeCluster:
				f.forbid(p.Namespace != nil, at.Child("namespace"), "`parameters.scope` is set to 'Cluster'")
			}
		}
	}
	if old != nil {
		f.add(frozen(class.Spec.Controller, old.Spec.Controller, at.Child("controller")))
	}
	return f.list
}
