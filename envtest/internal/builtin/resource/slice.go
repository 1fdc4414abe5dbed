// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

func validateResourceSlice(slice, old *resourcev1.ResourceSlice) field.ErrorList {
	spec, path := &slice.Spec, kind.SpecPath()
	errs := kind.DriverName(spec.Driver, path.Child("driver"))
	pool := path.Child("pool")
	errs = append(errs, poolName(spec.Pool.Name, pool.Child("name"))...)
	if spec.Pool.ResourceSliceCount <= 0 {
		errs = append(errs, field.Invalid(pool.Child("resourceSliceCount"), spec.Pool.ResourceSliceCount, "must be greater than zero"))
	}
	if spec.Pool.Generation < 0 {
		errs = append(errs, field.Invalid(pool.Child("generation"), spec.Pool.Generation, "must be greater than or equal to zero"))
	}
	if old != nil {
		errs = append(errs, kind.Frozen(spec.Pool.Name, old.Spec.Pool.Name, pool.Child("name"))...)
		errs = append(errs, kind.Frozen(spec.Driver, old.Spec.Driver, path.Child("driver"))...)
		errs = append(errs, kind.Frozen(spec.NodeName, old.Spec.NodeName, path.Child("nodeName"))...)
	}
	errs = append(errs, sliceNodes(spec, path)...)
	if spec.SharedCounters != nil && spec.Devices != nil {
		errs = append(errs, field.Invalid(path, "", "only one of `sharedCounters` or `devices` is allowed"))
	}
	return append(errs, devices(spec, path.Child("devices"))...)
}

// sliceNodes wants a slice to say in one way which nodes its devices are for.
func sliceNodes(spec *resourcev1.ResourceSliceSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	var set []string
	if name := spec.NodeName; name != nil && *name == "" {
		errs = append(errs, field.Invalid(path.Child("nodeName"), *name, "must be either unset or set to a non-empty string"))
	} else if name != nil {
		set = append(set, "`nodeName`")
		errs = append(errs, kind.InvalidIf(validation.IsDNS1123Subdomain(*name), *name, path.Child("nodeName"))...)
	}
	if spec.NodeSelector != nil {
		set = append(set, "`nodeSelector`")
		if terms := spec.NodeSelector.NodeSelectorTerms; len(terms) != 1 {
			errs = append(errs, field.Invalid(path.Child("nodeSelector", "nodeSelectorTerms"), terms, "must have exactly one node selector term"))
		}
	}
	for _, flag := range []struct {
		name  string
		value *bool
	}{{"allNodes", spec.AllNodes}, {"perDeviceNodeSelection", spec.PerDeviceNodeSelection}} {
		if flag.value != nil && !*flag.value {
			errs = append(errs, field.Invalid(path.Child(flag.name), false, "must be either unset or set to true"))
		} else if flag.value != nil {
			set = append(set, "`"+flag.name+"`")
		}
	}
	return append(errs, kind.ExactlyOne(path, "{"+strings.Join(set, ", ")+"}", len(set),
		"`nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection`")...)
}

func devices(spec *resourcev1.ResourceSliceSpec, path *field.Path) field.ErrorList {
	most := resourcev1.ResourceSliceMaxDevices
	if slices.ContainsFunc(spec.Devices, func(d resourcev1.Device) bool { return len(d.Taints)+len(d.ConsumesCounters) > 0 }) {
		most = resourcev1.ResourceSliceMaxDevicesWithAdvancedFeatures
	}
	if errs := kind.TooMany(len(spec.Devices), most, path); len(errs) > 0 {
		return errs
	}
	perDevice := spec.PerDeviceNodeSelection != nil && *spec.PerDeviceNodeSelection
	var errs field.ErrorList
	for i := range spec.Devices {
		errs = append(errs, device(&spec.Devices[i], perDevice, path.Index(i))...)
	}
	return append(errs, kind.Unique(spec.Devices, func(d resourcev1.Device) string { return d.Name }, path)...)
}

func device(d *resourcev1.Device, perDevice bool, path *field.Path) field.ErrorList {
	errs := dnsLabel(d.Name, path.Child("name"))
	if n := len(d.Attributes) + len(d.Capacity); n > resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice {
		errs = append(errs, field.Invalid(path, n, fmt.Sprintf("the total number of attributes and capacities must not exceed %d",
			resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice)))
	}
	for _, name := range slices.Sorted(maps.Keys(d.Attributes)) {
		at := path.Child("attributes")
		errs = append(errs, qualified(string(name), at)...)
		attribute := d.Attributes[name]
		errs = append(errs, deviceAttribute(&attribute, at.Key(string(name)))...)
	}
	for _, name := range slices.Sorted(maps.Keys(d.Capacity)) {
		errs = append(errs, qualified(string(name), path.Child("capacity"))...)
	}
	for i, taint := range d.Taints {
		at := path.Child("taints").Index(i)
		errs = append(errs, metavalidation.ValidateLabelName(taint.Key, at.Child("key"))...)
		errs = append(errs, kind.InvalidIf(validation.IsValidLabelValue(taint.Value), taint.Value, at.Child("value"))...)
		if taint.Effect == "" {
			errs = append(errs, field.Required(at.Child("effect"), ""))
		} else {
			errs = append(errs, taintEffect(taint.Effect, at.Child("effect"))...)
		}
	}
	if !perDevice && (d.NodeName != nil || d.NodeSelector != nil || d.AllNodes != nil) {
		errs = append(errs, field.Invalid(path, nil,
			"`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec"))
	}
	return errs
}

// deviceAttribute wants one value.
func deviceAttribute(a *resourcev1.DeviceAttribute, path *field.Path) field.ErrorList {
	values := 0
	for _, set := range []bool{
		a.BoolValue != nil, a.IntValue != nil, a.StringValue != nil, a.VersionValue != nil,
		a.BoolValues != nil, a.IntValues != nil, a.StringValues != nil, a.VersionValues != nil,
	} {
		if set {
			values++
		}
	}
	var errs field.ErrorList
	const most = resourcev1.DeviceAttributeMaxValueLength
	if a.StringValue != nil && len(*a.StringValue) > most {
		errs = append(errs, field.TooLong(path.Child("string"), "", most))
	}
	if a.VersionValue != nil && len(*a.VersionValue) > most {
		errs = append(errs, field.TooLong(path.Child("version"), "", most))
	}
	if values == 1 {
		return errs
	}
	var shown any = ""
	if !apiequality.Semantic.DeepEqual(*a, resourcev1.DeviceAttribute{}) {
		shown = *a
	}
	return append(errs, field.Invalid(path, shown, "exactly one value must be specified"))
}

func warnResourceSlice(w *kind.Warnings, slice, _ *resourcev1.ResourceSlice) {
	driver := slice.Spec.Driver
	w.SayIf(driver != strings.ToLower(driver), "spec.driver: driver names should be lowercase; %q contains uppercase characters", driver)
}
