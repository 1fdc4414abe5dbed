// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The rules are those of kube-apiserver's pkg/apis/core/validation/validation.go.

func validateLimitRange(limits, _ *corev1.LimitRange) field.ErrorList {
	var f faults
	types := sets.New[string]()
	for i := range limits.Spec.Limits {
		item, at := &limits.Spec.Limits[i], specPath("limits").Index(i)
		f.limitType(item.Type, at.Child("type"))
		f.unique(string(item.Type), types, at.Child("type"))
		f.limitItem(item, at)
	}
	return f.list
}

func (f *faults) limitType(kind corev1.LimitType, at *field.Path) {
	wrong := validation.IsQualifiedName(string(kind))
	f.messages(wrong, kind, at)
	own := kind == corev1.LimitTypePod || kind == corev1.LimitTypeContainer || kind == corev1.LimitTypePersistentVolumeClaim
	f.invalid(len(wrong) == 0 && !own && !strings.Contains(string(kind), "/"), at, kind, "must be a standard limit type or fully qualified")
}

func (f *faults) limitItem(item *corev1.LimitRangeItem, at *field.Path) {
	if item.Type == corev1.LimitTypePod {
		f.forbid(len(item.Default) > 0, at.Child("default"), "may not be specified when `type` is 'Pod'")
		f.forbid(len(item.DefaultRequest) > 0, at.Child("defaultRequest"), "may not be specified when `type` is 'Pod'")
	}
	names := sets.New[corev1.ResourceName]()
	for _, list := range []struct {
		name string
		of   corev1.ResourceList
		pods bool
	}{{"max", item.Max, true}, {"min", item.Min, true}, {"default", item.Default, false}, {"defaultRequest", item.DefaultRequest, false},
		{"maxLimitRequestRatio", item.MaxLimitRequestRatio, true}} {
		if item.Type == corev1.LimitTypePod && !list.pods {
			continue
		}
		for name := range list.of {
			f.limited(item.Type, name, at.Child(list.name).Key(string(name)))
			names.Insert(name)
		}
	}
	if item.Type == corev1.LimitTypePersistentVolumeClaim {
		_, least := item.Min[corev1.ResourceStorage]
		_, most := item.Max[corev1.ResourceStorage]
		f.need(least || most, at.Child("limits"))
	}
	for name := range names {
		f.limitOrder(item, name, at)
	}
}

func (f *faults) limited(kind corev1.LimitType, name corev1.ResourceName, at *field.Path) {
	if kind == corev1.LimitTypePod || kind == corev1.LimitTypeContainer {
		containerResource(f, name, at)
		return
	}
	f.resourceName(name, at)
}

// limitOrder checks that least, default request, default limit and most are in this order, and that the ratio is possible.
func (f *faults) limitOrder(item *corev1.LimitRangeItem, name corev1.ResourceName, at *field.Path) {
	key := func(list string) *field.Path { return at.Child(list).Key(string(name)) }
	above := func(a, b corev1.ResourceList) bool {
		x, ok := a[name]
		y, also := b[name]
		return ok && also && x.Cmp(y) > 0
	}
	asks, gets := item.DefaultRequest, item.Default
	if item.Type == corev1.LimitTypePod {
		asks, gets = nil, nil
	}
	const order = "out of order with the other values"
	f.invalid(above(item.Min, item.Max), key("min"), item.Min[name], order)
	f.invalid(above(item.Min, asks), key("defaultRequest"), asks[name], order)
	f.invalid(above(asks, item.Max), key("defaultRequest"), asks[name], order)
	f.invalid(above(asks, gets), key("defaultRequest"), asks[name], order)
	f.invalid(above(item.Min, gets), key("default"), gets[name], order)
	f.invalid(above(gets, item.Max), key("default"), gets[name], order)
	if ratio, ok := item.MaxLimitRequestRatio[name]; ok {
		f.invalid(ratio.Cmp(resource.MustParse("1")) < 0, key("maxLimitRequestRatio"), ratio, fmt.Sprintf("ratio %s is less than 1", ratio.String()))
		least, some := item.Min[name]
		most, also := item.Max[name]
		f.invalid(some && also && ratio.AsApproximateFloat64() > most.AsApproximateFloat64()/least.AsApproximateFloat64(), key("maxLimitRequestRatio"), ratio,
			fmt.Sprintf("ratio %s is greater than max/min", ratio.String()))
	}
	limit, some := gets[name]
	request, also := asks[name]
	f.invalid(!mayExceed(name) && some && also && limit.Cmp(request) != 0, key("defaultRequest"), request, "must equal the default value")
}

func validateResourceQuota(quota, old *corev1.ResourceQuota) field.ErrorList {
	var f faults
	at := specPath()
	f.quotaList(quota.Spec.Hard, at.Child("hard"))
	f.quotaScopes(&quota.Spec, at.Child("scopes"))
	if quota.Spec.ScopeSelector != nil {
		f.scopeSelector(&quota.Spec, at.Child("scopeSelector", "matchExpressions"))
	}
	if old != nil {
		same := sets.New(quota.Spec.Scopes...).Equal(sets.New(old.Spec.Scopes...))
		f.invalid(!same, at.Child("scopes"), quota.Spec.Scopes, "field is immutable")
	}
	return f.list
}

func validateResourceQuotaStatus(quota, _ *corev1.ResourceQuota) field.ErrorList {
	var f faults
	f.quotaList(quota.Status.Hard, field.NewPath("status", "hard"))
	f.quotaList(quota.Status.Used, field.NewPath("status", "used"))
	return f.list
}

func (f *faults) quotaList(list corev1.ResourceList, at *field.Path) {
	for name, value := range list {
		here := at.Key(string(name))
		f.resourceName(name, here)
		if !strings.Contains(string(name), "/") {
			f.invalid(!isQuotaResource(name), here, name, "must be a standard resource for quota")
		}
		f.resourceValue(name, value, here)
	}
}

func isQuotaResource(name corev1.ResourceName) bool {
	return slices.Contains(quotaResources, name) || isHugePages(name) || strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix)
}

var (
	podScopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating,
		corev1.ResourceQuotaScopeNotBestEffort, corev1.ResourceQuotaScopePriorityClass, corev1.ResourceQuotaScopeCrossNamespacePodAffinity}
	quotaScopes = append(slices.Clone(podScopes), corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeVolumeAttributesClass)
	podQuota    = []corev1.ResourceName{corev1.ResourcePods, corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceLimitsCPU,
		corev1.ResourceLimitsMemory, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory}
	claimQuota = []corev1.ResourceName{corev1.ResourcePersistentVolumeClaims, corev1.ResourceRequestsStorage}
)

// scopeFits tells whether a scope says something about a resource.
func scopeFits(scope corev1.ResourceQuotaScope, name corev1.ResourceName) bool {
	switch {
	case !isQuotaResource(name):
		return true
	case slices.Contains(podScopes, scope):
		return slices.Contains(podQuota, name)
	case scope == corev1.ResourceQuotaScopeBestEffort:
		return name == corev1.ResourcePods
	case scope == corev1.ResourceQuotaScopeVolumeAttributesClass:
		return slices.Contains(claimQuota, name)
	}
	return true
}

func (f *faults) quotaScopes(spec *corev1.ResourceQuotaSpec, at *field.Path) {
	for _, scope := range spec.Scopes {
		f.invalid(!slices.Contains(quotaScopes, scope), at, spec.Scopes, "unsupported scope")
		for name := range spec.Hard {
			f.invalid(!scopeFits(scope, name), at, spec.Scopes, "unsupported scope applied to resource")
		}
	}
	f.conflictingScopes(sets.New(spec.Scopes...), at, spec.Scopes)
}

func (f *faults) conflictingScopes(scopes sets.Set[corev1.ResourceQuotaScope], at *field.Path, value any) {
	f.invalid(scopes.HasAll(corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort), at, value, "conflicting scopes")
	f.invalid(scopes.HasAll(corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating), at, value, "conflicting scopes")
}

func (f *faults) scopeSelector(spec *corev1.ResourceQuotaSpec, at *field.Path) {
	scopes := sets.New[corev1.ResourceQuotaScope]()
	for _, r := range spec.ScopeSelector.MatchExpressions {
		f.invalid(!slices.Contains(quotaScopes, r.ScopeName), at.Child("scopeName"), r.ScopeName, "unsupported scope")
		for name := range spec.Hard {
			f.invalid(!scopeFits(r.ScopeName, name), at, spec.ScopeSelector, "unsupported scope applied to resource")
		}
		switch r.ScopeName {
		case corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort, corev1.ResourceQuotaScopeTerminating,
			corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
			f.invalid(r.Operator != corev1.ScopeSelectorOpExists, at.Child("operator"), r.Operator, "must be 'Exists' for this scope")
		}
		switch r.Operator {
		case corev1.ScopeSelectorOpIn, corev1.ScopeSelectorOpNotIn:
			f.need(len(r.Values) > 0, at.Child("values"))
		case corev1.ScopeSelectorOpExists, corev1.ScopeSelectorOpDoesNotExist:
			f.invalid(len(r.Values) > 0, at.Child("values"), r.Values, "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector")
		default:
			f.invalid(true, at.Child("operator"), r.Operator, "not a valid selector operator")
		}
		scopes.Insert(r.ScopeName)
	}
	f.conflictingScopes(scopes, at, spec.Scopes)
}

// validateNode reports the taints of a node at its metadata, as a kube-apiserver does.
func validateNode(node, old *corev1.Node) field.ErrorList {
	var f faults
	f.nodeAnnotations(node.Annotations)
	f.taints(node.Spec.Taints, field.NewPath("metadata", "taints"))
	f.nodeResources(node)
	ranges := specPath("podCIDRs")
	if old == nil || len(old.Spec.PodCIDRs) == 0 {
		for i, cidr := range node.Spec.PodCIDRs {
			f.add(validation.IsValidCIDRForLegacyField(ranges.Index(i), cidr, true, nil))
		}
		f.invalid(len(node.Spec.PodCIDRs) > 2 || len(node.Spec.PodCIDRs) == 2 && !dualStack(node.Spec.PodCIDRs), ranges, node.Spec.PodCIDRs,
			"may specify no more than one CIDR for each IP family")
	}
	if old == nil {
		return f.list
	}
	f.forbid(len(old.Spec.PodCIDRs) > 0 && !slices.Equal(old.Spec.PodCIDRs, node.Spec.PodCIDRs), ranges,
		"node updates may not change podCIDR except from \"\" to valid")
	f.forbid(old.Spec.ProviderID != "" && old.Spec.ProviderID != node.Spec.ProviderID, specPath("providerID"),
		"node updates may not change providerID except from \"\" to valid")
	f.forbid(old.Spec.DoNotUseExternalID != node.Spec.DoNotUseExternalID, specPath("externalID"), "may not be updated")
	return f.list
}

func validateNodeStatus(node, _ *corev1.Node) field.ErrorList {
	var f faults
	f.nodeAnnotations(node.Annotations)
	f.nodeResources(node)
	for i, address := range node.Status.Addresses {
		if slices.Contains(node.Status.Addresses[:i], address) {
			f.list = append(f.list, field.Duplicate(field.NewPath("status", "addresses").Index(i), address))
		}
	}
	return f.list
}

func (f *faults) nodeResources(node *corev1.Node) {
	for name, value := range node.Status.Capacity {
		f.resourceValue(name, value, field.NewPath("status", "capacity", string(name)))
	}
	for name, value := range node.Status.Allocatable {
		f.resourceValue(name, value, field.NewPath("status", "allocatable", string(name)))
	}
}

func (f *faults) taints(list []corev1.Taint, at *field.Path) {
	seen := sets.New[string]()
	for i, taint := range list {
		here := at.Index(i)
		f.add(metavalidation.ValidateLabelName(taint.Key, here.Child("key")))
		f.messages(validation.IsValidLabelValue(taint.Value), taint.Value, here.Child("value"))
		choice(f, taint.Effect, here.Child("effect"), corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)
		f.unique(string(taint.Effect)+"/"+taint.Key, seen, here)
	}
}

// dualStack tells whether two ranges are of different families.
func dualStack(ranges []string) bool {
	return strings.Contains(ranges[0], ":") != strings.Contains(ranges[1], ":")
}
