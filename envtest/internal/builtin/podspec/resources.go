// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// The names of resources that need no domain.
var (
	containerResources = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}
	podResources       = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}
	countedResources   = []corev1.ResourceName{
		corev1.ResourcePods, corev1.ResourceQuotas, corev1.ResourceServices, corev1.ResourceReplicationControllers, corev1.ResourceSecrets,
		corev1.ResourceConfigMaps, corev1.ResourcePersistentVolumeClaims, corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers,
	}
	QuotaResources = slices.Concat(countedResources, containerResources, []corev1.ResourceName{
		corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceRequestsStorage, corev1.ResourceRequestsEphemeralStorage,
		corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceLimitsEphemeralStorage,
	})
	standardResources = append(slices.Clone(QuotaResources), corev1.ResourceStorage)
)

func IsHugePages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// IsNative tells the resources of Kubernetes itself from those of a device.
func IsNative(name corev1.ResourceName) bool {
	return !strings.Contains(string(name), "/") || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

// IsExtended tells whether a resource is one of a device.
func IsExtended(name corev1.ResourceName) bool {
	return !IsNative(name) && !strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix) &&
		len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+string(name))) == 0
}

// MayExceed tells whether more than there is of a resource may be promised.
func MayExceed(name corev1.ResourceName) bool { return IsNative(name) && !IsHugePages(name) }

// CheckResourceName checks the name of any resource, and reports whether it is one.
func CheckResourceName(f *kind.Findings, name corev1.ResourceName, at *field.Path) bool {
	before := len(f.List)
	f.Messages(validation.IsQualifiedName(string(name)), name, at)
	if len(f.List) == before && !strings.Contains(string(name), "/") {
		huge := IsHugePages(name) || strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix)
		f.Invalid(!huge && !slices.Contains(standardResources, name), at, name, "must be a standard resource type or fully qualified")
	}
	return len(f.List) == before
}

// ContainerResource checks the name of a resource of a container.
func ContainerResource(f *kind.Findings, name corev1.ResourceName, at *field.Path) {
	CheckResourceName(f, name, at)
	if !strings.Contains(string(name), "/") {
		f.Invalid(!IsHugePages(name) && !slices.Contains(containerResources, name), at, name, "must be a standard resource for containers")
		return
	}
	f.Invalid(!IsNative(name) && !IsExtended(name), at, name, "doesn't follow extended resource name standard")
}

// podResource checks the name of a resource of a whole Pod.
func podResource(f *kind.Findings, name corev1.ResourceName, at *field.Path) {
	if CheckResourceName(f, name, at) && !IsHugePages(name) {
		kind.Known(f, name, at, podResources...)
	}
}

// CheckResourceValue checks how much of a resource there is.
func CheckResourceValue(f *kind.Findings, name corev1.ResourceName, value resource.Quantity, at *field.Path) {
	f.Add(kind.NotNegativeQuantity(value, at))
	if slices.Contains(countedResources, name) || IsExtended(name) {
		f.Invalid(value.MilliValue()%1000 != 0, at, value.String(), "must be an integer")
	}
}

// checkHugePages checks that a quantity is a number of whole pages.
func checkHugePages(f *kind.Findings, name corev1.ResourceName, value resource.Quantity, at *field.Path) {
	if !IsHugePages(name) {
		return
	}
	size, err := resource.ParseQuantity(strings.TrimPrefix(string(name), corev1.ResourceHugePagesPrefix))
	whole := err == nil && size.Sign() > 0 && size.MilliValue()%1000 == 0 && value.Value()%size.Value() == 0
	f.Invalid(!whole, at, value.String(), fmt.Sprintf("%s is not positive integer multiple of %s", value.String(), name))
}

// resources checks what a container or a Pod asks for.
func (f *PodCheck) resources(r *corev1.ResourceRequirements, nameRule func(*kind.Findings, corev1.ResourceName, *field.Path), at *field.Path) {
	huge, usual := false, false
	look := func(name corev1.ResourceName, value resource.Quantity, at *field.Path) {
		nameRule(&f.Findings, name, at)
		CheckResourceValue(&f.Findings, name, value, at)
		checkHugePages(&f.Findings, name, value, at)
		huge = huge || IsHugePages(name)
		usual = usual || name == corev1.ResourceCPU || name == corev1.ResourceMemory
	}
	for name, limit := range r.Limits {
		look(name, limit, at.Child("limits").Key(string(name)))
	}
	for name, request := range r.Requests {
		look(name, request, at.Child("requests").Key(string(name)))
		limit, limited := r.Limits[name]
		switch {
		case !limited:
			f.Need(MayExceed(name), at.Child("limits"))
		case !MayExceed(name) && request.Cmp(limit) != 0:
			f.Invalid(true, at.Child("requests"), request.String(), fmt.Sprintf("must be equal to %s limit of %s", name, limit.String()))
		case request.Cmp(limit) > 0:
			f.Invalid(true, at.Child("requests"), request.String(), fmt.Sprintf("must be less than or equal to %s limit of %s", name, limit.String()))
		}
	}
	f.Forbid(huge && !usual, at, "HugePages require cpu or memory")
	f.claimNames(r.Claims, at.Child("claims"))
}

// wholePod checks what a Pod asks for beside its containers.
func (f *PodCheck) wholePod(at *field.Path) {
	r := f.Spec.Resources
	if r == nil {
		return
	}
	at = at.Child("resources")
	if f.Spec.OS != nil && f.Spec.OS.Name == corev1.Windows {
		f.Forbid(true, at, "may not be set for a windows pod")
		return
	}
	f.Forbid(r.Claims != nil, at.Child("claims"), "claims may not be set for Resources at pod-level")
	f.resources(r, podResource, at)
	for name, sum := range ContainerRequests(f.Spec) {
		request, ok := r.Requests[name]
		f.Invalid(ok && sum.Cmp(request) > 0, at.Child("requests").Key(string(name)), request.String(),
			"must be greater than or equal to aggregate container requests of "+sum.String())
	}
	for i := range f.Spec.Containers {
		for name, limit := range f.Spec.Containers[i].Resources.Limits {
			most, ok := r.Limits[name]
			f.Invalid(ok && limit.Cmp(most) > 0, at.Child("containers").Index(i).Key(string(name)).Child("limits"), limit.String(),
				"must be less than or equal to pod limits of "+most.String())
		}
	}
}
