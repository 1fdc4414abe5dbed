// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The names of resources that need no domain.
var (
	containerResources = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}
	podResources       = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}
	countedResources   = []corev1.ResourceName{
		corev1.ResourcePods, corev1.ResourceQuotas, corev1.ResourceServices, corev1.ResourceReplicationControllers, corev1.ResourceSecrets,
		corev1.ResourceConfigMaps, corev1.ResourcePersistentVolumeClaims, corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers,
	}
	quotaResources = slices.Concat(countedResources, containerResources, []corev1.ResourceName{
		corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceRequestsStorage, corev1.ResourceRequestsEphemeralStorage,
		corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceLimitsEphemeralStorage,
	})
	standardResources = append(slices.Clone(quotaResources), corev1.ResourceStorage)
)

func isHugePages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// isNative tells the resources of Kubernetes itself from those of a device.
func isNative(name corev1.ResourceName) bool {
	return !strings.Contains(string(name), "/") || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

// isExtended tells whether a resource is one of a device.
func isExtended(name corev1.ResourceName) bool {
	return !isNative(name) && !strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix) &&
		len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+string(name))) == 0
}

// mayExceed tells whether more than there is of a resource may be promised.
func mayExceed(name corev1.ResourceName) bool { return isNative(name) && !isHugePages(name) }

// resourceName checks the name of any resource, and reports whether it is one.
func (f *faults) resourceName(name corev1.ResourceName, at *field.Path) bool {
	before := len(f.list)
	f.messages(validation.IsQualifiedName(string(name)), name, at)
	if len(f.list) == before && !strings.Contains(string(name), "/") {
		huge := isHugePages(name) || strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix)
		f.invalid(!huge && !slices.Contains(standardResources, name), at, name, "must be a standard resource type or fully qualified")
	}
	return len(f.list) == before
}

// containerResource checks the name of a resource of a container.
func containerResource(f *faults, name corev1.ResourceName, at *field.Path) {
	f.resourceName(name, at)
	if !strings.Contains(string(name), "/") {
		f.invalid(!isHugePages(name) && !slices.Contains(containerResources, name), at, name, "must be a standard resource for containers")
		return
	}
	f.invalid(!isNative(name) && !isExtended(name), at, name, "doesn't follow extended resource name standard")
}

// podResource checks the name of a resource of a whole Pod.
func podResource(f *faults, name corev1.ResourceName, at *field.Path) {
	if f.resourceName(name, at) && !isHugePages(name) {
		known(f, name, at, podResources...)
	}
}

// resourceValue checks how much of a resource there is.
func (f *faults) resourceValue(name corev1.ResourceName, value resource.Quantity, at *field.Path) {
	f.add(notNegativeQuantity(value, at))
	if slices.Contains(countedResources, name) || isExtended(name) {
		f.invalid(value.MilliValue()%1000 != 0, at, value.String(), "must be an integer")
	}
}

// hugePages checks that a quantity is a number of whole pages.
func (f *faults) hugePages(name corev1.ResourceName, value resource.Quantity, at *field.Path) {
	if !isHugePages(name) {
		return
	}
	size, err := resource.ParseQuantity(strings.TrimPrefix(string(name), corev1.ResourceHugePagesPrefix))
	whole := err == nil && size.Sign() > 0 && size.MilliValue()%1000 == 0 && value.Value()%size.Value() == 0
	f.invalid(!whole, at, value.String(), fmt.Sprintf("%s is not positive integer multiple of %s", value.String(), name))
}

// resources checks what a container or a Pod asks for.
func (f *podCheck) resources(r *corev1.ResourceRequirements, nameRule func(*faults, corev1.ResourceName, *field.Path), at *field.Path) {
	huge, usual := false, false
	look := func(name corev1.ResourceName, value resource.Quantity, at *field.Path) {
		nameRule(&f.faults, name, at)
		f.resourceValue(name, value, at)
		f.hugePages(name, value, at)
		huge = huge || isHugePages(name)
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
			f.need(mayExceed(name), at.Child("limits"))
		case !mayExceed(name) && request.Cmp(limit) != 0:
			f.invalid(true, at.Child("requests"), request.String(), fmt.Sprintf("must be equal to %s limit of %s", name, limit.String()))
		case request.Cmp(limit) > 0:
			f.invalid(true, at.Child("requests"), request.String(), fmt.Sprintf("must be less than or equal to %s limit of %s", name, limit.String()))
		}
	}
	f.forbid(huge && !usual, at, "HugePages require cpu or memory")
	f.claimNames(r.Claims, at.Child("claims"))
}

// wholePod checks what a Pod asks for beside its containers.
func (f *podCheck) wholePod(at *field.Path) {
	r := f.spec.Resources
	if r == nil {
		return
	}
	at = at.Child("resources")
	if f.spec.OS != nil && f.spec.OS.Name == corev1.Windows {
		f.forbid(true, at, "may not be set for a windows pod")
		return
	}
	f.forbid(r.Claims != nil, at.Child("claims"), "claims may not be set for Resources at pod-level")
	f.resources(r, podResource, at)
	for name, sum := range containerRequests(f.spec) {
		request, ok := r.Requests[name]
		f.invalid(ok && sum.Cmp(request) > 0, at.Child("requests").Key(string(name)), request.String(),
			"must be greater than or equal to aggregate container requests of "+sum.String())
	}
	for i := range f.spec.Containers {
		for name, limit := range f.spec.Containers[i].Resources.Limits {
			most, ok := r.Limits[name]
			f.invalid(ok && limit.Cmp(most) > 0, at.Child("containers").Index(i).Key(string(name)).Child("limits"), limit.String(),
				"must be less than or equal to pod limits of "+most.String())
		}
	}
}
