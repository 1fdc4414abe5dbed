// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

// The rules of kinds that describe nodes, their network and their storage.

func validateRuntimeClass(class, old *nodev1.RuntimeClass) field.ErrorList {
	path := field.NewPath("handler")
	errs := required(class.Handler, path)
	if class.Handler != "" {
		errs = append(errs, invalidIf(validation.IsDNS1123Label(class.Handler), class.Handler, path)...)
	}
	if class.Overhead != nil {
		at := field.NewPath("overhead", "limits")
		for _, name := range slices.Sorted(maps.Keys(class.Overhead.PodFixed)) {
			f := faults{}
			containerResource(&f, name, at.Key(string(name)))
			f.resourceValue(name, class.Overhead.PodFixed[name], at.Key(string(name)))
			errs = append(errs, f.list...)
		}
	}
	if class.Scheduling != nil {
		at := field.NewPath("scheduling")
		errs = append(errs, metavalidation.ValidateLabels(class.Scheduling.NodeSelector, at.Child("nodeSelector"))...)
		errs = append(errs, tolerationSet(class.Scheduling.Tolerations, at.Child("tolerations"))...)
		f := faults{}
		f.tolerations(class.Scheduling.Tolerations, at.Child("tolerations"))
		errs = append(errs, f.list...)
	}
	if old != nil {
		errs = append(errs, frozen(class.Handler, old.Handler, path)...)
	}
	return errs
}

// tolerationSet refuses a toleration that is there twice.
func tolerationSet(tolerations []corev1.Toleration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[corev1.Toleration]bool{}
	for i, t := range tolerations {
		key := corev1.Toleration{Key: t.Key, Operator: t.Operator, Value: t.Value, Effect: t.Effect}
		if seen[key] {
			errs = append(errs, field.Duplicate(path.Index(i), t))
		}
		seen[key] = true
	}
	return errs
}

// ipAddressName is the rule for names that are addresses in their canonical form.
func ipAddressName(name string, _ bool) []string {
	var messages []string
	for _, err := range validation.IsValidIP(nil, name) {
		messages = append(messages, err.Detail)
	}
	return messages
}

func validateIPAddress(address, old *networkingv1.IPAddress) field.ErrorList {
	path, parent := specPath("parentRef"), address.Spec.ParentRef
	if parent == nil {
		errs := field.ErrorList{field.Required(path, "")}
		if old != nil {
			errs = append(errs, frozen(parent, old.Spec.ParentRef, path)...)
		}
		return errs
	}
	var errs field.ErrorList
	if parent.Group != "" {
		errs = append(errs, invalidIf(validation.IsDNS1123Subdomain(parent.Group), parent.Group, path.Child("group"))...)
	}
	for _, part := range []struct {
		name, value string
		optional    bool
	}{{"resource", parent.Resource, false}, {"name", parent.Name, false}, {"namespace", parent.Namespace, true}} {
		if !part.optional {
			errs = append(errs, required(part.value, path.Child(part.name))...)
		}
		if part.value != "" {
			errs = append(errs, invalidIf(content.IsPathSegmentName(part.value), part.value, path.Child(part.name))...)
		}
	}
	if old != nil {
		errs = append(errs, frozen(parent, old.Spec.ParentRef, path)...)
	}
	return errs
}

// validateServiceCIDR checks the ranges of a new object. Of an old one they stay; a range of the other IP family may be added.
func validateServiceCIDR(cidr, old *networkingv1.ServiceCIDR) field.ErrorList {
	path, ranges := specPath("cidrs"), cidr.Spec.CIDRs
	if old == nil {
		return serviceRanges(ranges, path)
	}
	was := old.Spec.CIDRs
	if len(ranges) != len(was) && (len(was) != 1 || len(ranges) != 2) {
		return field.ErrorList{field.Invalid(path, ranges, apivalidation.FieldImmutableErrorMsg)}
	}
	var errs field.ErrorList
	for i := range was {
		if ranges[i] != was[i] {
			errs = append(errs, field.Invalid(path.Index(i), ranges[i], apivalidation.FieldImmutableErrorMsg))
		}
	}
	if len(ranges) != len(was) {
		errs = append(errs, serviceRanges(ranges, path)...)
	}
	return errs
}

func serviceRanges(ranges []string, path *field.Path) field.ErrorList {
	switch {
	case len(ranges) == 0:
		return field.ErrorList{field.Required(path, "at least one CIDR required")}
	case len(ranges) > 2:
		return field.ErrorList{field.Invalid(path, networkingv1.ServiceCIDRSpec{CIDRs: ranges}, "may only hold up to 2 values")}
	}
	var errs field.ErrorList
	for i, cidr := range ranges {
		errs = append(errs, validation.IsValidCIDR(path.Index(i), cidr)...)
	}
	if len(ranges) == 2 {
		family := netutils.IPFamilyOfCIDRString(ranges[0])
		if family != netutils.IPFamilyUnknown && family == netutils.IPFamilyOfCIDRString(ranges[1]) {
			errs = append(errs, field.Invalid(path, ranges,
				"may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"))
		}
	}
	return errs
}

const (
	maxClassParameters     = 512
	maxClassParametersSize = 256 << 10
)

func validateVolumeAttributesClass(class, old *storagev1.VolumeAttributesClass) field.ErrorList {
	var errs field.ErrorList
	driver, parameters := field.NewPath("driverName"), field.NewPath("parameters")
	if old != nil && class.DriverName != old.DriverName {
		errs = append(errs, field.Forbidden(driver, "updates to driverName are forbidden."))
	}
	if old != nil && !maps.Equal(class.Parameters, old.Parameters) {
		errs = append(errs, field.Forbidden(parameters, "updates to parameters are forbidden."))
	}
	errs = append(errs, required(class.DriverName, driver)...)
	if class.DriverName != "" {
		errs = append(errs, invalidIf(validation.IsQualifiedName(strings.ToLower(class.DriverName)), strings.ToLower(class.DriverName), driver)...)
	}
	if len(class.Parameters) > maxClassParameters {
		return append(errs, field.TooLong(parameters, "", maxClassParameters))
	}
	size := 0
	for key, value := range class.Parameters {
		if key == "" {
			errs = append(errs, field.Invalid(parameters, key, "field can not be empty."))
		}
		size += len(key) + len(value)
	}
	if size > maxClassParametersSize {
		errs = append(errs, field.TooLong(parameters, "", maxClassParametersSize))
	}
	if len(class.Parameters) == 0 {
		errs = append(errs, field.Required(parameters, "must contain at least one key/value pair"))
	}
	return errs
}

func validateCSIStorageCapacity(capacity, old *storagev1.CSIStorageCapacity) field.ErrorList {
	topology, class := field.NewPath("nodeTopology"), field.NewPath("storageClassName")
	errs := labelSelector(capacity.NodeTopology, topology)
	errs = append(errs, invalidIf(apivalidation.NameIsDNSSubdomain(capacity.StorageClassName, false), capacity.StorageClassName, class)...)
	if capacity.Capacity != nil {
		errs = append(errs, notNegativeQuantity(*capacity.Capacity, field.NewPath("capacity"))...)
	}
	if old == nil {
		return errs
	}
	const immutable = "field is immutable"
	if !apiequality.Semantic.DeepEqual(capacity.NodeTopology, old.NodeTopology) {
		errs = append(errs, field.Invalid(topology, capacity.NodeTopology, immutable))
	}
	if capacity.StorageClassName != old.StorageClassName {
		errs = append(errs, field.Invalid(class, capacity.StorageClassName, immutable))
	}
	return errs
}

// driverName checks the name of a driver of volumes or devices.
func driverName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	if len(name) > maxDriverName {
		errs = append(errs, field.TooLong(path, "", maxDriverName))
	}
	return append(errs, invalidIf(validation.IsDNS1123Subdomain(strings.ToLower(name)), name, path)...)
}

const maxDriverName = 63

// tooMany refuses a list that is longer than most.
func tooMany(n, most int, path *field.Path) field.ErrorList {
	if n > most {
		return field.ErrorList{field.TooMany(path, n, most)}
	}
	return nil
}

// unique refuses the second and later items of the same key.
func unique[T any](items []T, key func(T) string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, item := range items {
		if k := key(item); seen[k] {
			errs = append(errs, field.Duplicate(path.Index(i), k))
		} else {
			seen[k] = true
		}
	}
	return errs
}

// exactlyOne refuses anything but one of the alternatives.
func exactlyOne(path *field.Path, value any, set int, alternatives string) field.ErrorList {
	switch {
	case set == 0:
		return field.ErrorList{field.Required(path, fmt.Sprintf("exactly one of %s is required", alternatives))}
	case set > 1:
		return field.ErrorList{field.Invalid(path, value, fmt.Sprintf("exactly one of %s is required, but multiple fields are set", alternatives))}
	}
	return nil
}
