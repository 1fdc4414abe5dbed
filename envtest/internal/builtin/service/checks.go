// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// checkServiceAnnotations checks two names of one setting.
func checkServiceAnnotations(f *kind.Findings, annotations map[string]string) {
	const older = corev1.DeprecatedAnnotationTopologyAwareHints
	hints, old := annotations[older]
	mode, now := annotations[corev1.AnnotationTopologyMode]
	f.Invalid(old && now && mode != hints, kind.AnnotationsPath().Key(corev1.AnnotationTopologyMode), mode,
		"must match annotations["+older+"] when both are specified")
}

// The rules are those of kube-apiserver's pkg/apis/core/validation/validation.go.

// ValidateService checks type, ports and addresses, and that a Service has the fields of its type only. The cluster IP is
// kept as long as the type has one.
func ValidateService(svc, old *corev1.Service) field.ErrorList {
	spec, path := &svc.Spec, kind.SpecPath()
	errs := kind.OneOf(spec.Type, path.Child("type"), corev1.ServiceTypeClusterIP, corev1.ServiceTypeExternalName,
		corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort)
	errs = append(errs, kind.OneOf(spec.SessionAffinity, path.Child("sessionAffinity"), corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone)...)
	errs = append(errs, metavalidation.ValidateLabels(spec.Selector, path.Child("selector"))...)
	switch {
	case !hasClusterIP(svc):
		errs = append(errs, nameOnly(spec, path)...)
	case isHeadless(svc) && hasNodePorts(svc):
		errs = append(errs, field.Invalid(path.Child("clusterIPs").Index(0), spec.ClusterIPs, "may not be set to 'None' for "+string(spec.Type)+" services"))
	case len(spec.Ports) == 0 && !isHeadless(svc):
		errs = append(errs, field.Required(path.Child("ports"), ""))
	}
	f := kind.Findings{List: errs}
	checkServiceAnnotations(&f, svc.Annotations)
	errs = append(f.List, serviceAddresses(svc)...)
	errs = append(errs, affinityTimeout(spec, path.Child("sessionAffinityConfig", "clientIP", "timeoutSeconds"))...)
	errs = append(errs, externalAddresses(svc, old, path.Child("externalIPs"))...)
	errs = append(errs, validateServicePorts(svc, path.Child("ports"))...)
	errs = append(errs, sourceRanges(svc, old)...)
	errs = append(errs, balancerFields(svc, path)...)
	errs = append(errs, trafficFields(svc, path)...)
	if old != nil {
		errs = append(errs, keptServiceFields(svc, old, path)...)
	}
	return errs
}

// nameOnly checks a Service that stands for another name. The name may end with a dot, which makes it complete.
func nameOnly(spec *corev1.ServiceSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, has := range []struct {
		name string
		set  bool
	}{{"clusterIPs", len(spec.ClusterIPs) > 0}, {"ipFamilies", len(spec.IPFamilies) > 0}, {"ipFamilyPolicy", spec.IPFamilyPolicy != nil}} {
		if has.set {
			errs = append(errs, field.Forbidden(path.Child(has.name), "may not be set for ExternalName services"))
		}
	}
	name, path := strings.TrimSuffix(spec.ExternalName, "."), path.Child("externalName")
	if name == "" {
		return append(errs, field.Required(path, ""))
	}
	return append(errs, kind.InvalidIf(validation.IsDNS1123Subdomain(name), name, path)...)
}

// serviceAddresses checks the addresses of a Service that may have some, its families and its policy, as far as they are set.
func serviceAddresses(svc *corev1.Service) field.ErrorList {
	if !hasClusterIP(svc) {
		return nil
	}
	spec, path := &svc.Spec, kind.SpecPath("clusterIPs")
	var errs field.ErrorList
	switch {
	case spec.ClusterIP == "" && len(spec.ClusterIPs) > 0:
		errs = append(errs, field.Invalid(path, spec.ClusterIPs, "must be empty when `clusterIP` is not specified"))
	case spec.ClusterIP != "" && len(spec.ClusterIPs) == 0:
		errs = append(errs, field.Required(path, ""))
	case spec.ClusterIP != "" && spec.ClusterIPs[0] != spec.ClusterIP:
		errs = append(errs, field.Invalid(path, spec.ClusterIPs, "first value must match `clusterIP`"))
	}
	seen := sets.New[corev1.IPFamily]()
	for i, family := range spec.IPFamilies {
		at := kind.SpecPath("ipFamilies").Index(i)
		errs = append(errs, kind.OneOf(family, at, corev1.IPv4Protocol, corev1.IPv6Protocol)...)
		if seen.Has(family) {
			errs = append(errs, field.Duplicate(at, family))
		}
		seen.Insert(family)
	}
	if spec.IPFamilyPolicy != nil {
		errs = append(errs, kind.OneOf(*spec.IPFamilyPolicy, kind.SpecPath("ipFamilyPolicy"), corev1.IPFamilyPolicySingleStack,
			corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack)...)
	}
	return append(errs, eachAddress(spec, path)...)
}

// eachAddress checks the addresses one by one: each is one, and of the family that is named for it.
func eachAddress(spec *corev1.ServiceSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	families := sets.New[corev1.IPFamily]()
	for i, address := range spec.ClusterIPs {
		if i == 0 && address == corev1.ClusterIPNone {
			if len(spec.ClusterIPs) > 1 {
				return append(errs, field.Invalid(path, spec.ClusterIPs, "'None' must be the first and only value"))
			}
			return errs
		}
		if _, err := netip.ParseAddr(address); err != nil {
			errs = append(errs, field.Invalid(path.Index(i), address, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"))
			continue
		}
		family := familyOf(address)
		named := i < len(spec.IPFamilies) && (spec.IPFamilies[i] == corev1.IPv4Protocol || spec.IPFamilies[i] == corev1.IPv6Protocol)
		if named && spec.IPFamilies[i] != family {
			errs = append(errs, field.Invalid(path.Index(i), address, fmt.Sprintf("expected an %s value as indicated by `ipFamilies[%v]`", spec.IPFamilies[i], i)))
		}
		families.Insert(family)
	}
	if len(errs) == 0 && len(spec.ClusterIPs) != families.Len() {
		errs = append(errs, field.Invalid(path, spec.ClusterIPs, "may specify no more than one IP for each IP family"))
	}
	return errs
}

func validateServicePorts(svc *corev1.Service, path *field.Path) field.ErrorList {
	type served struct {
		port     int32
		protocol corev1.Protocol
	}
	var errs field.ErrorList
	names, ports, nodePorts := sets.New[string](), sets.New[served](), sets.New[served]()
	for i, port := range svc.Spec.Ports {
		at := path.Index(i)
		if port.Name != "" || len(svc.Spec.Ports) > 1 {
			errs = append(errs, kind.UniqueLabel(port.Name, names, at.Child("name"))...)
		}
		errs = append(errs, kind.InvalidIf(validation.IsValidPortNum(int(port.Port)), port.Port, at.Child("port"))...)
		errs = append(errs, kind.OneOf(port.Protocol, at.Child("protocol"), corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)...)
		if port.AppProtocol != nil {
			errs = append(errs, kind.InvalidIf(validation.IsQualifiedName(*port.AppProtocol), *port.AppProtocol, at.Child("appProtocol"))...)
		}
		switch port.TargetPort.Type {
		case intstr.Int:
			errs = append(errs, kind.InvalidIf(validation.IsValidPortNum(port.TargetPort.IntValue()), port.TargetPort, at.Child("targetPort"))...)
		case intstr.String:
			errs = append(errs, kind.InvalidIf(validation.IsValidPortName(port.TargetPort.StrVal), port.TargetPort, at.Child("targetPort"))...)
		}
		if ports.Has(served{port.Port, port.Protocol}) {
			errs = append(errs, field.Duplicate(at, corev1.ServicePort{Port: port.Port, Protocol: port.Protocol}))
		}
		ports.Insert(served{port.Port, port.Protocol})
		if port.NodePort == 0 {
			continue
		}
		if svc.Spec.Type == corev1.ServiceTypeClusterIP {
			errs = append(errs, field.Forbidden(at.Child("nodePort"), "may not be used when `type` is 'ClusterIP'"))
		}
		if nodePorts.Has(served{port.NodePort, port.Protocol}) {
			errs = append(errs, field.Duplicate(at.Child("nodePort"), port.NodePort))
		}
		nodePorts.Insert(served{port.NodePort, port.Protocol})
	}
	return errs
}

// affinityTimeout checks for how long a client stays with a Pod.
func affinityTimeout(spec *corev1.ServiceSpec, path *field.Path) field.ErrorList {
	const longest = 86400 // a day
	if spec.SessionAffinity != corev1.ServiceAffinityClientIP {
		return nil
	}
	var f kind.Findings
	config := spec.SessionAffinityConfig
	if config == nil || config.ClientIP == nil || config.ClientIP.TimeoutSeconds == nil {
		f.Need(false, path)
		return f.List
	}
	seconds := *config.ClientIP.TimeoutSeconds
	f.Invalid(seconds <= 0 || seconds > longest, path, seconds, fmt.Sprintf("must be greater than 0 and less than %d", longest))
	return f.List
}

// externalAddresses checks the addresses at which others lead to a Service. An old address may keep its form, but must be
// reachable.
func externalAddresses(svc, old *corev1.Service, path *field.Path) field.ErrorList {
	var f kind.Findings
	var before []string
	if old != nil {
		before = old.Spec.ExternalIPs
	}
	for i, address := range svc.Spec.ExternalIPs {
		wrong := validation.IsValidIPForLegacyField(path.Index(i), address, true, before)
		if f.Add(wrong); len(wrong) == 0 {
			checkReachable(&f, address, path.Index(i))
		}
	}
	return f.List
}

// onlyBalancers is said of what Services of other types may not have.
const onlyBalancers = "may only be used when `type` is 'LoadBalancer'"

// sourceRanges checks from where a load balancer takes traffic: the field, or the annotation where there is no field. A range may
// have spaces around it, and an old one is not checked again.
func sourceRanges(svc, old *corev1.Service) field.ErrorList {
	const key = corev1.AnnotationLoadBalancerSourceRangesKey
	var f kind.Findings
	was := &corev1.Service{}
	if old != nil {
		was = old
	}
	if ranges := svc.Spec.LoadBalancerSourceRanges; len(ranges) > 0 {
		at := kind.SpecPath("LoadBalancerSourceRanges") // in capitals there too
		f.Forbid(!isBalanced(svc), at, onlyBalancers)
		var before []string
		for _, source := range was.Spec.LoadBalancerSourceRanges {
			before = append(before, strings.TrimSpace(source))
		}
		for i, source := range ranges {
			f.Add(validation.IsValidCIDRForLegacyField(at.Index(i), strings.TrimSpace(source), true, before))
		}
		return f.List
	}
	written, ok := svc.Annotations[key]
	if !ok {
		return nil
	}
	at := field.NewPath("metadata", "annotations").Key(key)
	f.Forbid(!isBalanced(svc), at, onlyBalancers)
	if strings.TrimSpace(written) == "" || old != nil && was.Annotations[key] == written {
		return f.List
	}
	for source := range strings.SplitSeq(written, ",") {
		f.Add(validation.IsValidCIDRForLegacyField(at, strings.TrimSpace(source), true, nil))
	}
	return f.List
}

// balancerFields checks what only load balancers have.
func balancerFields(svc *corev1.Service, path *field.Path) field.ErrorList {
	spec, class := &svc.Spec, svc.Spec.LoadBalancerClass
	if isBalanced(svc) {
		if class == nil {
			return nil
		}
		return kind.InvalidIf(validation.IsQualifiedName(*class), *class, path.Child("loadBalancerClass"))
	}
	var errs field.ErrorList
	if spec.AllocateLoadBalancerNodePorts != nil {
		errs = append(errs, field.Forbidden(path.Child("allocateLoadBalancerNodePorts"), onlyBalancers))
	}
	if class != nil {
		errs = append(errs, field.Forbidden(path.Child("loadBalancerClass"), onlyBalancers))
	}
	return errs
}

// trafficFields checks where traffic may come from and go to.
func trafficFields(svc *corev1.Service, path *field.Path) field.ErrorList {
	spec := &svc.Spec
	var errs field.ErrorList
	external := path.Child("externalTrafficPolicy")
	if fromOutside(svc) {
		errs = append(errs, kind.OneOf(spec.ExternalTrafficPolicy, external, corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal)...)
	} else if spec.ExternalTrafficPolicy != "" {
		errs = append(errs, field.Invalid(external, spec.ExternalTrafficPolicy, "may only be set for externally-accessible services"))
	}
	if how := spec.TrafficDistribution; how != nil {
		errs = append(errs, kind.OneOf(*how, path.Child("trafficDistribution"), corev1.ServiceTrafficDistributionPreferClose,
			corev1.ServiceTrafficDistributionPreferSameNode, corev1.ServiceTrafficDistributionPreferSameZone)...)
	}
	if policy := spec.InternalTrafficPolicy; policy != nil {
		errs = append(errs, kind.OneOf(*policy, path.Child("internalTrafficPolicy"), corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal)...)
	}
	if !checksHealth(svc) && spec.HealthCheckNodePort != 0 {
		errs = append(errs, field.Invalid(path.Child("healthCheckNodePort"), spec.HealthCheckNodePort,
			"may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"))
	}
	return errs
}

// keptServiceFields refuses a change of what a Service has for as long as its type has it.
func keptServiceFields(svc, old *corev1.Service, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if hasClusterIP(svc) && hasClusterIP(old) && !(isHeadless(svc) && isHeadless(old)) {
		now := svc.Spec.ClusterIPs
		for i, address := range old.Spec.ClusterIPs {
			if i >= len(now) || now[i] != address {
				errs = append(errs, field.Invalid(path.Child("clusterIPs").Index(i), now, "may not change once set"))
			}
		}
	}
	if isBalanced(svc) && isBalanced(old) && !reflect.DeepEqual(svc.Spec.LoadBalancerClass, old.Spec.LoadBalancerClass) {
		errs = append(errs, field.Invalid(path.Child("loadBalancerClass"), svc.Spec.LoadBalancerClass, "may not change once set"))
	}
	if checksHealth(svc) && checksHealth(old) && svc.Spec.HealthCheckNodePort != old.Spec.HealthCheckNodePort {
		errs = append(errs, field.Forbidden(path.Child("healthCheckNodePort"), "field is immutable"))
	}
	return errs
}

// ValidateServiceStatus checks the addresses of a load balancer, which only Services of that type have.
func ValidateServiceStatus(svc, old *corev1.Service) field.ErrorList {
	var f kind.Findings
	at := field.NewPath("status", "loadBalancer", "ingress")
	balancers := svc.Status.LoadBalancer.Ingress
	if !isBalanced(svc) {
		f.Forbid(len(balancers) > 0 && !reflect.DeepEqual(balancers, old.Status.LoadBalancer.Ingress), at, "may only be used when `spec.type` is LoadBalancer")
		return f.List
	}
	var before []string
	for _, was := range old.Status.LoadBalancer.Ingress {
		before = append(before, was.IP)
	}
	for i, balancer := range balancers {
		here := at.Index(i)
		CheckBalancer(&f, balancer.IP, balancer.Hostname, before, here)
		mode := balancer.IPMode
		f.Need(balancer.IP == "" || mode != nil, here.Child("ipMode"))
		f.Forbid(balancer.IP == "" && mode != nil, here.Child("ipMode"), "may not be specified when `ip` is not set")
		kind.Chosen(&f, mode, here.Child("ipMode"), corev1.LoadBalancerIPModeProxy, corev1.LoadBalancerIPModeVIP)
	}
	return f.List
}
