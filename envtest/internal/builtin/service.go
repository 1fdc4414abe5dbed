// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"
)

// attachService makes the server give addresses and node ports to Services.
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
	return nil, nil
}

// prepareService keeps allocated values that an update leaves out, and drops those that the type does not have.
func prepareService(_ context.Context, svc, old *corev1.Service) {
	if old != nil {
		keepAllocated(svc, old)
	}
	if !hasClusterIP(svc) {
		svc.Spec.ClusterIP, svc.Spec.ClusterIPs = "", nil
		svc.Spec.IPFamilies, svc.Spec.IPFamilyPolicy = nil, nil
	}
	if !hasNodePorts(svc) {
		svc.Spec.HealthCheckNodePort = 0
		if len(svc.Spec.ExternalIPs) == 0 {
			svc.Spec.ExternalTrafficPolicy = ""
		}
		if old != nil && hasNodePorts(old) {
			for i := range svc.Spec.Ports {
				svc.Spec.Ports[i].NodePort = 0
			}
		}
	}
}

// keepAllocated fills what the server chose earlier from old, so that a PUT of a manifest does not lose it.
func keepAllocated(svc, old *corev1.Service) {
	if hasClusterIP(svc) && hasClusterIP(old) {
		if svc.Spec.ClusterIP == "" {
			svc.Spec.ClusterIP = old.Spec.ClusterIP
		}
		switch same := svc.Spec.ClusterIP == old.Spec.ClusterIP; {
		case same && len(svc.Spec.ClusterIPs) == 0:
			svc.Spec.ClusterIPs = old.Spec.ClusterIPs
		case !same && slices.Equal(svc.Spec.ClusterIPs, old.Spec.ClusterIPs):
			svc.Spec.ClusterIPs = []string{svc.Spec.ClusterIP} // a client that knows the old field only
		}
		if svc.Spec.IPFamilyPolicy == nil {
			svc.Spec.IPFamilyPolicy = old.Spec.IPFamilyPolicy
		}
		if len(svc.Spec.IPFamilies) == 0 {
			svc.Spec.IPFamilies = old.Spec.IPFamilies
		}
	}
	if !hasNodePorts(svc) || !hasNodePorts(old) {
		return
	}
	for i := range svc.Spec.Ports {
		port := &svc.Spec.Ports[i]
		for _, was := range old.Spec.Ports {
			if port.NodePort == 0 && was.Port == port.Port && was.Protocol == port.Protocol {
				port.NodePort = was.NodePort
			}
		}
	}
}

// hasClusterIP reports whether the Service's type has a cluster IP; "None" counts as one.
func hasClusterIP(svc *corev1.Service) bool { return svc.Spec.Type != corev1.ServiceTypeExternalName }

// hasNodePorts reports whether the Service's type has node ports.
func hasNodePorts(svc *corev1.Service) bool {
	return svc.Spec.Type == corev1.ServiceTypeNodePort || svc.Spec.Type == corev1.ServiceTypeLoadBalancer
}

// wantsNodePorts reports whether the server chooses node ports that are not set.
func wantsNodePorts(svc *corev1.Service) bool {
	chosen := svc.Spec.AllocateLoadBalancerNodePorts
	return svc.Spec.Type == corev1.ServiceTypeNodePort ||
		svc.Spec.Type == corev1.ServiceTypeLoadBalancer && (chosen == nil || *chosen)
}
