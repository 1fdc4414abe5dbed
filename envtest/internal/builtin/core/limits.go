// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/podspec"
)

// prepareLimitRange gives one without a name a name.
func prepareLimitRange(_ context.Context, limits, old *corev1.LimitRange) {
	if old == nil && limits.Name == "" {
		limits.Name = string(uuid.NewUUID())
	}
}

// The rules are those of kube-apiserver's pkg/apis/core/validation/validation.go.

func validateLimitRange(limits, _ *corev1.LimitRange) field.ErrorList {
	var f kind.Findings
	types := sets.New[string]()
	for i := range limits.Spec.Limits {
		item, at := &limits.Spec.Limits[i], kind.SpecPath("limits").Index(i)
		checkLimitType(&f, item.Type, at.Child("type"))
		f.Unique(string(item.Type), types, at.Child("type"))
		checkLimitItem(&f, item, at)
	}
	return f.List
}

func checkLimitType(f *kind.Findings, kind corev1.LimitType, at *field.Path) {
	wrong := validation.IsQualifiedName(string(kind))
	f.Messages(wrong, kind, at)
	own := kind == corev1.LimitTypePod || kind == corev1.LimitTypeContainer || kind == corev1.LimitTypePersistentVolumeClaim
	f.Invalid(len(wrong) == 0 && !own && !strings.Contains(string(kind), "/"), at, kind, "must be a standard limit type or fully qualified")
}

func checkLimitItem(f *kind.Findings, item *corev1.LimitRangeItem, at *field.Path) {
	if item.Type == corev1.LimitTypePod {
		f.Forbid(len(item.Default) > 0, at.Child("default"), "may not be specified when `type` is 'Pod'")
		f.Forbid(len(item.DefaultRequest) > 0, at.Child("defaultRequest"), "may not be specified when `type` is 'Pod'")
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
			checkLimited(f, item.Type, name, at.Child(list.name).Key(string(name)))
			names.Insert(name)
		}
	}
	if item.Type == corev1.LimitTypePersistentVolumeClaim {
		_, least := item.Min[corev1.ResourceStorage]
		_, most := item.Max[corev1.ResourceStorage]
		f.Need(least || most, at.Child("limits"))
	}
	for name := range names {
		checkLimitOrder(f, item, name, at)
	}
}

func checkLimited(f *kind.Findings, kind corev1.LimitType, name corev1.ResourceName, at *field.Path) {
	if kind == corev1.LimitTypePod || kind == corev1.LimitTypeContainer {
		podspec.ContainerResource(f, name, at)
		return
	}
	podspec.CheckResourceName(f, name, at)
}

// checkLimitOrder checks that least, default request, default limit and most are in this order, and that the ratio is possible.
func checkLimitOrder(f *kind.Findings, item *corev1.LimitRangeItem, name corev1.ResourceName, at *field.Path) {
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
	f.Invalid(above(item.Min, item.Max), key("min"), item.Min[name], order)
	f.Invalid(above(item.Min, asks), key("defaultRequest"), asks[name], order)
	f.Invalid(above(asks, item.Max), key("defaultRequest"), asks[name], order)
	f.Invalid(above(asks, gets), key("defaultRequest"), asks[name], order)
	f.Invalid(above(item.Min, gets), key("default"), gets[name], order)
	f.Invalid(above(gets, item.Max), key("default"), gets[name], order)
	if ratio, ok := item.MaxLimitRequestRatio[name]; ok {
		f.Invalid(ratio.Cmp(resource.MustParse("1")) < 0, key("maxLimitRequestRatio"), ratio, fmt.Sprintf("ratio %s is less than 1", ratio.String()))
		least, some := item.Min[name]
		most, also := item.Max[name]
		f.Invalid(some && also && ratio.AsApproximateFloat64() > most.AsApproximateFloat64()/least.AsApproximateFloat64(), key("maxLimitRequestRatio"), ratio,
			fmt.Sprintf("ratio %s is greater than max/min", ratio.String()))
	}
	limit, some := gets[name]
	request, also := asks[name]
	f.Invalid(!podspec.MayExceed(name) && some && also && limit.Cmp(request) != 0, key("defaultRequest"), request, "must equal the default value")
}

func validateResourceQuota(quota, old *corev1.ResourceQuota) field.ErrorList {
	var f kind.Findings
	at := kind.SpecPath()
	checkQuotaList(&f, quota.Spec.Hard, at.Child("hard"))
	checkQuotaScopes(&f, &quota.Spec, at.Child("scopes"))
	if quota.Spec.ScopeSelector != nil {
		checkScopeSelector(&f, &quota.Spec, at.Child("scopeSelector", "matchExpressions"))
	}
	if old != nil {
		same := sets.New(quota.Spec.Scopes...).Equal(sets.New(old.Spec.Scopes...))
		f.Invalid(!same, at.Child("scopes"), quota.Spec.Scopes, "field is immutable")
	}
	return f.List
}

func validateResourceQuotaStatus(quota, _ *corev1.ResourceQuota) field.ErrorList {
	var f kind.Findings
	checkQuotaList(&f, quota.Status.Hard, field.NewPath("status", "hard"))
	checkQuotaList(&f, quota.Status.Used, field.NewPath("status", "used"))
	return f.List
}

func checkQuotaList(f *kind.Findings, list corev1.ResourceList, at *field.Path) {
	for name, value := range list {
		here := at.Key(string(name))
		podspec.CheckResourceName(f, name, here)
		if !strings.Contains(string(name), "/") {
			f.Invalid(!isQuotaResource(name), here, name, "must be a standard resource for quota")
		}
		podspec.CheckResourceValue(f, name, value, here)
	}
}

func isQuotaResource(name corev1.ResourceName) bool {
	return slices.Contains(podspec.QuotaResources, name) || podspec.IsHugePages(name) || strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix)
}

var (
	podScopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating,
		corev1.ResourceQuotaScopeNotBestEffort, corev1.ResourceQuotaScopePriorityClass, corev1.ResourceQuotaScopeCrossNamespacePodAffinity}
	quotaScopes = append(slices.Clone(podScopes), corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeVolumeAttributesClass)
	podQuota    = []corev1.ResourceName{corev1.ResourcePods, corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceLimitsCPU,
		corev1.ResourceLimitsMemory, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory}
	ClaimQuota = []corev1.ResourceName{corev1.ResourcePersistentVolumeClaims, corev1.ResourceRequestsStorage}
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
		return slices.Contains(ClaimQuota, name)
	}
	return true
}

func checkQuotaScopes(f *kind.Findings, spec *corev1.ResourceQuotaSpec, at *field.Path) {
	for _, scope := range spec.Scopes {
		f.Invalid(!slices.Contains(quotaScopes, scope), at, spec.Scopes, "unsupported scope")
		for name := range spec.Hard {
			f.Invalid(!scopeFits(scope, name), at, spec.Scopes, "unsupported scope applied to resource")
		}
	}
	checkConflictingScopes(f, sets.New(spec.Scopes...), at, spec.Scopes)
}

func checkConflictingScopes(f *kind.Findings, scopes sets.Set[corev1.ResourceQuotaScope], at *field.Path, value any) {
	f.Invalid(scopes.HasAll(corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort), at, value, "conflicting scopes")
	f.Invalid(scopes.HasAll(corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating), at, value, "conflicting scopes")
}

func checkScopeSelector(f *kind.Findings, spec *corev1.ResourceQuotaSpec, at *field.Path) {
	scopes := sets.New[corev1.ResourceQuotaScope]()
	for _, r := range spec.ScopeSelector.MatchExpressions {
		f.Invalid(!slices.Contains(quotaScopes, r.ScopeName), at.Child("scopeName"), r.ScopeName, "unsupported scope")
		for name := range spec.Hard {
			f.Invalid(!scopeFits(r.ScopeName, name), at, spec.ScopeSelector, "unsupported scope applied to resource")
		}
		switch r.ScopeName {
		case corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort, corev1.ResourceQuotaScopeTerminating,
			corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
			f.Invalid(r.Operator != corev1.ScopeSelectorOpExists, at.Child("operator"), r.Operator, "must be 'Exists' for this scope")
		}
		switch r.Operator {
		case corev1.ScopeSelectorOpIn, corev1.ScopeSelectorOpNotIn:
			f.Need(len(r.Values) > 0, at.Child("values"))
		case corev1.ScopeSelectorOpExists, corev1.ScopeSelectorOpDoesNotExist:
			f.Invalid(len(r.Values) > 0, at.Child("values"), r.Values, "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector")
		default:
			f.Invalid(true, at.Child("operator"), r.Operator, "not a valid selector operator")
		}
		scopes.Insert(r.ScopeName)
	}
	checkConflictingScopes(f, scopes, at, spec.Scopes)
}
