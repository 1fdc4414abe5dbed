// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/core"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/podspec"
)

// measure says how much of quotas the objects of a kind use. Functions that are nil do nothing.
type measure struct {
	resource schema.GroupResource
	// handles says whether a request may change the use. Creations always may, and are not asked about.
	handles func(admission.Attributes) bool
	// counts says whether a name in a quota is about the kind.
	counts func(corev1.ResourceName) bool
	usage  func(runtime.Object) corev1.ResourceList
	scope  func(corev1.ScopedResourceSelectorRequirement, runtime.Object) (bool, error)
	// demand says which requests and limits an object lacks though a quota counts them.
	demand func(counted []corev1.ResourceName, obj runtime.Object) error
	list   generic.ListFuncByNamespace
}

var _ quota.Evaluator = measure{}

// evaluators are those of kube-apiserver. The objects of other kinds are counted by the number.
func evaluators(stores kind.Stores) []quota.Evaluator {
	list := []quota.Evaluator{
		measure{
			resource: corev1.Resource("pods"), handles: podUseChanges, counts: countsOfPods, usage: podUse, scope: podInScope, demand: podDemands,
		}.of(stores),
		measure{
			resource: corev1.Resource("services"), handles: updatesMainResource, counts: oneOfNames("services", "services.nodeports",
				"services.loadbalancers", "count/services"), usage: serviceUse,
		}.of(stores),
		measure{
			resource: corev1.Resource("persistentvolumeclaims"), handles: claimUseChanges, counts: countsOfClaims, usage: claimUse, scope: claimInScope,
		}.of(stores),
		measure{
			resource: resourcev1.Resource("resourceclaims"), handles: updatesMainResource, counts: countsOfDevices, usage: deviceUse,
		}.of(stores),
	}
	for _, plural := range []string{"configmaps", "resourcequotas", "replicationcontrollers", "secrets"} { // have a short name too
		resource := corev1.Resource(plural)
		list = append(list, generic.NewObjectCountEvaluator(resource, lists(stores, resource), corev1.ResourceName(plural)))
	}
	return list
}

// of lets the measure list objects of one server.
func (m measure) of(stores kind.Stores) measure {
	m.list = lists(stores, m.resource)
	return m
}

// lists returns a function that lists the objects of a resource.
func lists(stores kind.Stores, resource schema.GroupResource) generic.ListFuncByNamespace {
	return func(namespace string) ([]runtime.Object, error) {
		list, err := kind.ListIn[runtime.Object](context.Background(), stores[resource], namespace)
		if err != nil {
			return nil, err
		}
		return meta.ExtractList(list)
	}
}

// GroupResource implements quota.Evaluator.
func (m measure) GroupResource() schema.GroupResource { return m.resource }

// Handles implements quota.Evaluator.
func (m measure) Handles(a admission.Attributes) bool {
	return a.GetOperation() == admission.Create && a.GetSubresource() == "" || a.GetOperation() == admission.Update && m.handles(a)
}

// Constraints implements quota.Evaluator.
func (m measure) Constraints(counted []corev1.ResourceName, obj runtime.Object) error {
	if m.demand == nil {
		return nil
	}
	return m.demand(counted, obj)
}

// Matches implements quota.Evaluator.
func (m measure) Matches(q *corev1.ResourceQuota, obj runtime.Object) (bool, error) {
	return generic.Matches(q, obj, m.MatchingResources, m.inScope)
}

// MatchingResources implements quota.Evaluator.
func (m measure) MatchingResources(names []corev1.ResourceName) []corev1.ResourceName {
	return slices.DeleteFunc(slices.Clone(names), func(name corev1.ResourceName) bool { return !m.counts(name) })
}

// MatchingScopes implements quota.Evaluator.
func (m measure) MatchingScopes(
	obj runtime.Object, scopes []corev1.ScopedResourceSelectorRequirement,
) ([]corev1.ScopedResourceSelectorRequirement, error) {
	var matching []corev1.ScopedResourceSelectorRequirement
	for _, scope := range scopes {
		in, err := m.inScope(scope, obj)
		if err != nil {
			return nil, fmt.Errorf("error on matching scope %v: %w", scope, err)
		}
		if in {
			matching = append(matching, scope)
		}
	}
	return matching, nil
}

// UncoveredQuotaScopes implements quota.Evaluator.
func (m measure) UncoveredQuotaScopes(limited, covered []corev1.ScopedResourceSelectorRequirement) ([]corev1.ScopedResourceSelectorRequirement, error) {
	return slices.DeleteFunc(slices.Clone(limited), func(scope corev1.ScopedResourceSelectorRequirement) bool {
		return slices.ContainsFunc(covered, func(by corev1.ScopedResourceSelectorRequirement) bool { return by.ScopeName == scope.ScopeName })
	}), nil
}

// Usage implements quota.Evaluator.
func (m measure) Usage(obj runtime.Object) (corev1.ResourceList, error) { return m.usage(obj), nil }

// UsageStats implements quota.Evaluator.
func (m measure) UsageStats(options quota.UsageStatsOptions) (quota.UsageStats, error) {
	return generic.CalculateUsageStats(options, m.list, m.inScope, m.Usage)
}

func (m measure) inScope(scope corev1.ScopedResourceSelectorRequirement, obj runtime.Object) (bool, error) {
	if m.scope == nil {
		return false, nil
	}
	return m.scope(scope, obj)
}

// updatesMainResource handles all updates but those of subresources.
func updatesMainResource(a admission.Attributes) bool { return a.GetSubresource() == "" }

// oneOfNames counts some names.
func oneOfNames(names ...corev1.ResourceName) func(corev1.ResourceName) bool {
	return func(name corev1.ResourceName) bool { return slices.Contains(names, name) }
}

// number is a count of objects.
func number(n int) resource.Quantity { return *resource.NewQuantity(int64(n), resource.DecimalSI) }

// selects says whether one of the values of a scope, or that there is none, is what a quota selects.
func selects(scope corev1.ScopedResourceSelectorRequirement, values []string) (bool, error) {
	if scope.Operator == corev1.ScopeSelectorOpExists {
		return len(values) > 0, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: string(scope.ScopeName), Operator: metav1.LabelSelectorOperator(scope.Operator), Values: scope.Values,
	}}})
	if err != nil {
		return false, fmt.Errorf("failed to parse and convert selector: %w", err)
	}
	if len(values) == 0 {
		return selector.Matches(labels.Set{}), nil
	}
	return slices.ContainsFunc(values, func(value string) bool {
		return selector.Matches(labels.Set{string(scope.ScopeName): value})
	}), nil
}

// serviceUse counts ports of nodes as they are asked for: they are not yet allocated.
func serviceUse(obj runtime.Object) corev1.ResourceList {
	spec := &kind.MustBe[*corev1.Service](obj).Spec
	ports, balancers := 0, 0
	switch spec.Type {
	case corev1.ServiceTypeNodePort:
		ports = len(spec.Ports)
	case corev1.ServiceTypeLoadBalancer:
		balancers = 1
		for i := range spec.Ports {
			if spec.AllocateLoadBalancerNodePorts == nil || *spec.AllocateLoadBalancerNodePorts || spec.Ports[i].NodePort != 0 {
				ports++
			}
		}
	}
	return corev1.ResourceList{
		"count/services": number(1), corev1.ResourceServices: number(1), corev1.ResourceServicesLoadBalancers: number(balancers),
		corev1.ResourceServicesNodePorts: number(ports),
	}
}

// ofStorageClass is between the name of a storage class and what is counted of its claims.
const ofStorageClass = ".storageclass.storage.k8s.io/"

func countsOfClaims(name corev1.ResourceName) bool {
	return name == "count/persistentvolumeclaims" || slices.ContainsFunc(core.ClaimQuota, func(counted corev1.ResourceName) bool {
		return name == counted || strings.HasSuffix(string(name), ofStorageClass+string(counted))
	})
}

// claimUse counts storage in whole bytes: as much as the claim asks for, or as was allocated if that is more.
func claimUse(obj runtime.Object) corev1.ResourceList {
	claim := kind.MustBe[*corev1.PersistentVolumeClaim](obj)
	use := corev1.ResourceList{"count/persistentvolumeclaims": number(1), corev1.ResourcePersistentVolumeClaims: number(1)}
	if size, ok := claim.Spec.Resources.Requests[corev1.ResourceStorage]; ok {
		if allocated := claim.Status.AllocatedResources[corev1.ResourceStorage]; allocated.Cmp(size) > 0 {
			size = allocated
		}
		size = size.DeepCopy()
		size.RoundUp(0)
		use[corev1.ResourceRequestsStorage] = size
	}
	if class := core.ClassOf(claim.Annotations, claim.Spec.StorageClassName); class != "" {
		for _, counted := range core.ClaimQuota {
			if value, ok := use[counted]; ok {
				use[corev1.ResourceName(class+ofStorageClass)+counted] = value
			}
		}
	}
	return use
}

// claimUseChanges handles all updates but those of a status that have nothing to do with quotas.
func claimUseChanges(a admission.Attributes) bool {
	if a.GetSubresource() != "status" {
		return a.GetSubresource() == ""
	}
	claim, old := kind.MustBe[*corev1.PersistentVolumeClaim](a.GetObject()), kind.MustBe[*corev1.PersistentVolumeClaim](a.GetOldObject())
	return !claim.Status.AllocatedResources.Storage().Equal(*old.Status.AllocatedResources.Storage()) ||
		!slices.Equal(attributesClasses(claim), attributesClasses(old))
}

func claimInScope(scope corev1.ScopedResourceSelectorRequirement, obj runtime.Object) (bool, error) {
	if scope.ScopeName != corev1.ResourceQuotaScopeVolumeAttributesClass {
		return false, nil
	}
	return selects(scope, attributesClasses(kind.MustBe[*corev1.PersistentVolumeClaim](obj)))
}

// attributesClasses are the classes that a claim has, wants, or is about to have.
func attributesClasses(claim *corev1.PersistentVolumeClaim) []string {
	var names []string
	for _, name := range []*string{claim.Spec.VolumeAttributesClassName, claim.Status.CurrentVolumeAttributesClassName} {
		if name != nil {
			names = append(names, *name)
		}
	}
	if modify := claim.Status.ModifyVolumeStatus; modify != nil {
		names = append(names, modify.TargetVolumeAttributesClassName)
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" })
}

func countsOfDevices(name corev1.ResourceName) bool {
	return name == "count/resourceclaims.resource.k8s.io" || strings.HasSuffix(string(name), corev1.ResourceClaimsPerClass)
}

// deviceUse counts the most devices of each class that a claim may get.
func deviceUse(obj runtime.Object) corev1.ResourceList {
	use := corev1.ResourceList{"count/resourceclaims.resource.k8s.io": number(1)}
	of := func(class string, mode resourcev1.DeviceAllocationMode, count int64) corev1.ResourceList {
		if mode == resourcev1.DeviceAllocationModeAll {
			count = resourcev1.AllocationResultsMaxSize
		} else if mode != resourcev1.DeviceAllocationModeExactCount {
			count = 0
		}
		return corev1.ResourceList{corev1.ResourceName(class + corev1.ResourceClaimsPerClass): *resource.NewQuantity(count, resource.DecimalSI)}
	}
	for _, request := range kind.MustBe[*resourcev1.ResourceClaim](obj).Spec.Devices.Requests {
		if request.Exactly != nil && len(request.FirstAvailable) == 0 {
			podspec.AddResources(use, of(request.Exactly.DeviceClassName, request.Exactly.AllocationMode, request.Exactly.Count))
		}
		most := corev1.ResourceList{}
		for _, sub := range request.FirstAvailable {
			podspec.RaiseResources(most, of(sub.DeviceClassName, sub.AllocationMode, sub.Count))
		}
		podspec.AddResources(use, most)
	}
	return use
}
