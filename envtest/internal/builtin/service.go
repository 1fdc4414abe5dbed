// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"context"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"
)

// A Service is written in three steps, as by kube-apiserver (its pkg/registry/core/service): the server completes it with
// what it chose before and what it chooses now (begin of serviceAllocator), drops what the type does not have any more
// (prepareService), and checks it (validateService).

// attachService makes the server give addresses and node ports to Services, and adds services/proxy.
func attachService(a *attachment) (map[string]rest.Storage, error) {
	allocator := newServiceAllocator(func(ctx context.Context) (*corev1.ServiceList, error) {
		return listAll[*corev1.ServiceList](ctx, a.store)
	})
	a.store.BeginCreate = func(ctx context.Context, obj runtime.Object, options *metav1.CreateOptions) (genericregistry.FinishFunc, error) {
		return allocator.begin(ctx, mustBe[*corev1.Service](obj), nil, dryrun.IsDryRun(options.DryRun))
	}
	a.store.BeginUpdate = func(ctx context.Context, obj, old runtime.Object, options *metav1.UpdateOptions) (genericregistry.FinishFunc, error) {
		return allocator.begin(ctx, mustBe[*corev1.Service](obj), mustBe[*corev1.Service](old), dryrun.IsDryRun(options.DryRun))
	}
	a.store.AfterDelete = func(obj runtime.Object, _ *metav1.DeleteOptions) {
		allocator.forget(mustBe[*corev1.Service](obj))
	}
	connections := serviceConnections{
		services:  func() rest.Getter { return a.store },
		endpoints: a.getter(corev1.Resource("endpoints")), pods: a.getter(corev1.Resource("pods")),
	}
	return map[string]rest.Storage{"proxy": connections.proxy()}, nil
}

// keepAllocated fills what the server chose earlier from old, so that a PUT of a manifest does not lose it. A port is known by
// its name: its number may change.
func keepAllocated(svc, old *corev1.Service) {
	spec, was := &svc.Spec, &old.Spec
	if hasClusterIP(svc) && hasClusterIP(old) {
		unset(&spec.ClusterIP, was.ClusterIP)
		if len(spec.ClusterIPs) == 0 {
			spec.ClusterIPs = was.ClusterIPs
		}
	}
	if checksHealth(svc) && checksHealth(old) {
		unset(&spec.HealthCheckNodePort, was.HealthCheckNodePort)
	}
	if !wantsNodePorts(svc) || !wantsNodePorts(old) {
		return
	}
	asked := nodePorts(svc)
	each(spec.Ports, func(port *corev1.ServicePort) {
		i := slices.IndexFunc(was.Ports, func(p corev1.ServicePort) bool { return p.Name == port.Name })
		if i >= 0 && !slices.Contains(asked, was.Ports[i].NodePort) {
			unset(&port.NodePort, was.Ports[i].NodePort)
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

// prepareService drops from a Service that changes its type what the new type does not have. What the client changes at the
// same time stays, for validation to refuse it.
func prepareService(_ context.Context, svc, old *corev1.Service) {
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
		each(spec.Ports, func(port *corev1.ServicePort) { port.NodePort = 0 })
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

// dropTraffic drops the policy for traffic in the cluster from a Service that is a name. A kube-apiserver stores it, and drops it
// from every answer.
func dropTraffic(svc *corev1.Service) {
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
