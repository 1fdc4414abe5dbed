// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"net/netip"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/connect"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

func DefaultService(svc *corev1.Service) {
	spec := &svc.Spec
	kind.Unset(&spec.Type, corev1.ServiceTypeClusterIP)
	kind.Unset(&spec.SessionAffinity, corev1.ServiceAffinityNone)
	switch spec.SessionAffinity {
	case corev1.ServiceAffinityNone:
		spec.SessionAffinityConfig = nil
	case corev1.ServiceAffinityClientIP:
		kind.Missing(&spec.SessionAffinityConfig, corev1.SessionAffinityConfig{})
		kind.Missing(&spec.SessionAffinityConfig.ClientIP, corev1.ClientIPConfig{})
		kind.Missing(&spec.SessionAffinityConfig.ClientIP.TimeoutSeconds, corev1.DefaultClientIPServiceAffinitySeconds)
	}
	kind.Each(spec.Ports, func(p *corev1.ServicePort) {
		kind.Unset(&p.Protocol, corev1.ProtocolTCP)
		if p.TargetPort == intstr.FromInt32(0) || p.TargetPort == intstr.FromString("") {
			p.TargetPort = intstr.FromInt32(p.Port)
		}
	})
	if hasNodePorts(svc) || spec.Type == corev1.ServiceTypeClusterIP && len(spec.ExternalIPs) > 0 {
		kind.Unset(&spec.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)
	}
	if hasClusterIP(svc) {
		kind.Missing(&spec.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	}
	if spec.Type == corev1.ServiceTypeLoadBalancer {
		kind.Missing(&spec.AllocateLoadBalancerNodePorts, true)
		kind.Each(svc.Status.LoadBalancer.Ingress, func(i *corev1.LoadBalancerIngress) {
			if i.IP != "" {
				kind.Missing(&i.IPMode, corev1.LoadBalancerIPModeVIP)
			}
		})
	}
}

// A Service is written in three steps, as by kube-apiserver (its pkg/registry/core/service): the server completes it with
// what it chose before and what it chooses now (begin of serviceAllocator), drops what the type does not have any more
// (PrepareService), and checks it (ValidateService).

// AttachService makes the server give addresses and node ports to Services, and adds services/proxy.
func AttachService(a *kind.Served) (map[string]rest.Storage, error) {
	allocator := newServiceAllocator(func(ctx context.Context) (*corev1.ServiceList, error) {
		return kind.ListAll[*corev1.ServiceList](ctx, a.Store)
	})
	a.Store.BeginCreate = func(ctx context.Context, obj runtime.Object, options *metav1.CreateOptions) (genericregistry.FinishFunc, error) {
		return allocator.begin(ctx, kind.MustBe[*corev1.Service](obj), nil, dryrun.IsDryRun(options.DryRun))
	}
	a.Store.BeginUpdate = func(ctx context.Context, obj, old runtime.Object, options *metav1.UpdateOptions) (genericregistry.FinishFunc, error) {
		return allocator.begin(ctx, kind.MustBe[*corev1.Service](obj), kind.MustBe[*corev1.Service](old), dryrun.IsDryRun(options.DryRun))
	}
	a.Store.AfterDelete = func(obj runtime.Object, _ *metav1.DeleteOptions) {
		allocator.forget(kind.MustBe[*corev1.Service](obj))
	}
	connections := connect.ServiceConnections{
		Services:  func() rest.Getter { return a.Store },
		Endpoints: a.Getter(corev1.Resource("endpoints")), Pods: a.Getter(corev1.Resource("pods")),
	}
	return map[string]rest.Storage{"proxy": connections.Proxy()}, nil
}

// keepAllocated fills what the server chose earlier from old, so that a PUT of a manifest does not lose it. A port is known by
// its name: its number may change.
func keepAllocated(svc, old *corev1.Service) {
	spec, was := &svc.Spec, &old.Spec
	if hasClusterIP(svc) && hasClusterIP(old) {
		kind.Unset(&spec.ClusterIP, was.ClusterIP)
		if len(spec.ClusterIPs) == 0 {
			spec.ClusterIPs = was.ClusterIPs
		}
	}
	if checksHealth(svc) && checksHealth(old) {
		kind.Unset(&spec.HealthCheckNodePort, was.HealthCheckNodePort)
	}
	if !wantsNodePorts(svc) || !wantsNodePorts(old) {
		return
	}
	asked := nodePorts(svc)
	kind.Each(spec.Ports, func(port *corev1.ServicePort) {
		i := slices.IndexFunc(was.Ports, func(p corev1.ServicePort) bool { return p.Name == port.Name })
		if i >= 0 && !slices.Contains(asked, was.Ports[i].NodePort) {
			kind.Unset(&port.NodePort, was.Ports[i].NodePort)
		}
	})
}

// syncClusterIPs makes the new name of a Service's addresses follow the old one, for clients that know only that.
func syncClusterIPs(svc, old *corev1.Service) {
	spec, was := &svc.Spec, &corev1.ServiceSpec{}
	if old != nil {
		was = &old.Spec
	}
	switch {
	case spec.ClusterIP == was.ClusterIP && len(spec.ClusterIPs) == 0:
		spec.ClusterIPs = was.ClusterIPs
	case spec.ClusterIP == was.ClusterIP || !slices.Equal(spec.ClusterIPs, was.ClusterIPs):
	case spec.ClusterIP == "":
		spec.ClusterIPs = nil
	default:
		spec.ClusterIPs = []string{spec.ClusterIP}
	}
}

// PrepareService drops from a Service that changes its type what the new type does not have. Other changes of the client
// stay, for validation to refuse them.
func PrepareService(_ context.Context, svc, old *corev1.Service) {
	if old == nil {
		return
	}
	spec, was := &svc.Spec, &old.Spec
	if hasClusterIP(old) && !hasClusterIP(svc) {
		if spec.ClusterIP == was.ClusterIP {
			dropUnchanged(&spec.ClusterIPs, was.ClusterIPs)
			if spec.ClusterIPs == nil {
				spec.ClusterIP = ""
			}
		}
		dropUnchanged(&spec.IPFamilies, was.IPFamilies)
		dropUnchanged(&spec.IPFamilyPolicy, was.IPFamilyPolicy)
	}
	if hasNodePorts(old) && !hasNodePorts(svc) && (taken{ports: nodePorts(old)}).holds(taken{ports: nodePorts(svc)}) {
		kind.Each(spec.Ports, func(port *corev1.ServicePort) { port.NodePort = 0 })
	}
	if checksHealth(old) && !checksHealth(svc) {
		dropUnchanged(&spec.HealthCheckNodePort, was.HealthCheckNodePort)
	}
	if isBalanced(old) && !isBalanced(svc) {
		dropUnchanged(&spec.AllocateLoadBalancerNodePorts, was.AllocateLoadBalancerNodePorts)
		dropUnchanged(&spec.LoadBalancerClass, was.LoadBalancerClass)
	}
	if fromOutside(old) && !fromOutside(svc) {
		dropUnchanged(&spec.ExternalTrafficPolicy, was.ExternalTrafficPolicy)
	}
	if !isBalanced(svc) {
		svc.Status.LoadBalancer = corev1.LoadBalancerStatus{}
	}
}

// DropTraffic drops the policy for traffic in the cluster from a Service that is a name. A kube-apiserver stores it, and drops it
// from every answer.
func DropTraffic(svc *corev1.Service) {
	if !hasClusterIP(svc) {
		svc.Spec.InternalTrafficPolicy = nil
	}
}

// dropUnchanged empties a field that has the value that it had.
func dropUnchanged[T any](field *T, was T) {
	if reflect.DeepEqual(*field, was) {
		var none T
		*field = none
	}
}

// hasClusterIP reports whether the Service's type has a cluster IP; "None" counts as one.
func hasClusterIP(svc *corev1.Service) bool { return svc.Spec.Type != corev1.ServiceTypeExternalName }

// isHeadless reports whether the Service has a name for its endpoints and no address of its own.
func isHeadless(svc *corev1.Service) bool {
	return hasClusterIP(svc) && svc.Spec.ClusterIP == corev1.ClusterIPNone
}

func isBalanced(svc *corev1.Service) bool { return svc.Spec.Type == corev1.ServiceTypeLoadBalancer }

// hasNodePorts reports whether the Service's type has node ports.
func hasNodePorts(svc *corev1.Service) bool {
	return svc.Spec.Type == corev1.ServiceTypeNodePort || isBalanced(svc)
}

// wantsNodePorts reports whether the server chooses node ports that are not set.
func wantsNodePorts(svc *corev1.Service) bool {
	chosen := svc.Spec.AllocateLoadBalancerNodePorts
	return hasNodePorts(svc) && (!isBalanced(svc) || chosen == nil || *chosen)
}

// fromOutside reports whether the Service is reached from outside of the cluster.
func fromOutside(svc *corev1.Service) bool {
	return hasNodePorts(svc) || svc.Spec.Type == corev1.ServiceTypeClusterIP && len(svc.Spec.ExternalIPs) > 0
}

// checksHealth reports whether the Service has a node port by which a load balancer learns which nodes serve it.
func checksHealth(svc *corev1.Service) bool {
	return isBalanced(svc) && svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// nodePorts returns the node ports of a Service's ports that are set.
func nodePorts(svc *corev1.Service) []int32 {
	var set []int32
	for _, port := range svc.Spec.Ports {
		if port.NodePort != 0 {
			set = append(set, port.NodePort)
		}
	}
	return set
}

// CheckBalancer checks where a load balancer is: its address, where it need not be better than before, and its name.
func CheckBalancer(f *kind.Findings, ip, host string, before []string, at *field.Path) {
	if ip != "" {
		f.Add(validation.IsValidIPForLegacyField(at.Child("ip"), ip, true, before))
	}
	if host != "" {
		f.Subdomain(host, at.Child("hostname"))
		_, err := netip.ParseAddr(host)
		f.Invalid(err == nil, at.Child("hostname"), host, "must be a DNS name, not an IP address")
	}
}

// WarnService warns of fields that a Service has and does not use, and of fields that it had better
// not use.
func WarnService(w *kind.Warnings, service, _ *corev1.Service) {
	const ignored = "spec.%s is ignored for headless services"
	spec, at := &service.Spec, kind.SpecPath()
	if _, ok := service.Annotations[corev1.DeprecatedAnnotationTopologyAwareHints]; ok {
		w.Say("annotation %s is deprecated, please use %s instead", corev1.DeprecatedAnnotationTopologyAwareHints, corev1.AnnotationTopologyMode)
	}
	if spec.ClusterIP != "" && spec.ClusterIP != corev1.ClusterIPNone {
		w.IPs(spec.ClusterIPs, at.Child("clusterIPs"))
	}
	external := spec.Type == corev1.ServiceTypeExternalName
	headless := spec.Type == corev1.ServiceTypeClusterIP && spec.ClusterIP == corev1.ClusterIPNone
	w.SayIf(headless && spec.LoadBalancerIP != "", ignored, "loadBalancerIP")
	w.SayIf(headless && len(spec.ExternalIPs) > 0, ignored, "externalIPs")
	w.SayIf(headless && spec.SessionAffinity != corev1.ServiceAffinityNone, ignored, "SessionAffinity")
	w.IPs(spec.ExternalIPs, at.Child("externalIPs"))
	w.SayIf(len(spec.ExternalIPs) > 0 && !headless && !external, "spec.externalIPs is deprecated and may no longer be implemented in some clusters")
	w.IP(spec.LoadBalancerIP, at.Child("loadBalancerIP"))
	w.CIDRs(spec.LoadBalancerSourceRanges, at.Child("loadBalancerSourceRanges"))
	w.SayIf(external && len(spec.ExternalIPs) > 0, "spec.externalIPs is ignored when spec.type is %q", corev1.ServiceTypeExternalName)
	w.SayIf(!external && spec.ExternalName != "", "spec.externalName is ignored when spec.type is not %q", corev1.ServiceTypeExternalName)
	w.SayIf(kind.Value(spec.TrafficDistribution, "") == corev1.ServiceTrafficDistributionPreferClose, "spec.trafficDistribution: %q is deprecated; use %q",
		corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone)
}

func WarnServiceStatus(w *kind.Warnings, service, _ *corev1.Service) {
	for i, ingress := range service.Status.LoadBalancer.Ingress {
		w.IP(ingress.IP, field.NewPath("status", "loadBalancer", "ingress").Index(i))
	}
}
