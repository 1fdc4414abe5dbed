// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// The rules are those of kube-apiserver's pkg/apis/resource/validation. CEL expressions are not compiled.

func validateDeviceClass(class, _ *resourcev1.DeviceClass) field.ErrorList {
	path := kind.SpecPath()
	errs := deviceSelectors(class.Spec.Selectors, path.Child("selectors"))
	config := path.Child("config")
	if errs := kind.TooMany(len(class.Spec.Config), resourcev1.DeviceConfigMaxSize, config); len(errs) > 0 {
		return errs
	}
	for i := range class.Spec.Config {
		errs = append(errs, deviceConfig(&class.Spec.Config[i].DeviceConfiguration, config.Index(i))...)
	}
	return errs
}

// validateResourceClaim checks a new claim. The spec of an old claim stays.
func validateResourceClaim(claim, old *resourcev1.ResourceClaim) field.ErrorList {
	if old != nil {
		return kind.Frozen(claim.Spec, old.Spec, kind.SpecPath())
	}
	return deviceClaim(&claim.Spec.Devices, kind.SpecPath("devices"))
}

func validateResourceClaimTemplate(template, old *resourcev1.ResourceClaimTemplate) field.ErrorList {
	path := kind.SpecPath()
	errs := metavalidation.ValidateLabels(template.Spec.Labels, path.Child("metadata", "labels"))
	errs = append(errs, apivalidation.ValidateAnnotations(template.Spec.Annotations, path.Child("metadata", "annotations"))...)
	errs = append(errs, deviceClaim(&template.Spec.Spec.Devices, path.Child("spec", "devices"))...)
	if old != nil {
		errs = append(errs, kind.Frozen(template.Spec, old.Spec, path)...)
	}
	return errs
}

func deviceClaim(claim *resourcev1.DeviceClaim, path *field.Path) field.ErrorList {
	errs := kind.TooMany(len(claim.Requests), resourcev1.DeviceRequestsMaxSize, path.Child("requests"))
	errs = append(errs, kind.Unique(claim.Requests, func(r resourcev1.DeviceRequest) string { return r.Name }, path.Child("requests"))...)
	for i := range claim.Requests {
		errs = append(errs, deviceRequest(&claim.Requests[i], path.Child("requests").Index(i))...)
	}
	known := requestNames(claim)
	errs = append(errs, kind.TooMany(len(claim.Constraints), resourcev1.DeviceConstraintsMaxSize, path.Child("constraints"))...)
	for i, constraint := range claim.Constraints {
		at := path.Child("constraints").Index(i)
		errs = append(errs, requestRefs(constraint.Requests, known, at.Child("requests"))...)
		switch {
		case constraint.MatchAttribute != nil:
			errs = append(errs, fullyQualified(string(*constraint.MatchAttribute), at.Child("matchAttribute"))...)
		case constraint.DistinctAttribute != nil:
			errs = append(errs, fullyQualified(string(*constraint.DistinctAttribute), at.Child("distinctAttribute"))...)
		default:
			errs = append(errs, field.Required(at, "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set"))
		}
	}
	errs = append(errs, kind.TooMany(len(claim.Config), resourcev1.DeviceConfigMaxSize, path.Child("config"))...)
	for i := range claim.Config {
		at := path.Child("config").Index(i)
		errs = append(errs, requestRefs(claim.Config[i].Requests, known, at.Child("requests"))...)
		errs = append(errs, deviceConfig(&claim.Config[i].DeviceConfiguration, at)...)
	}
	return errs
}

func deviceRequest(request *resourcev1.DeviceRequest, path *field.Path) field.ErrorList {
	errs := dnsLabel(request.Name, path.Child("name"))
	exactly, first := request.Exactly, request.FirstAvailable
	const alternatives = "`exactly` or `firstAvailable`"
	switch {
	case exactly == nil && len(first) == 0:
		return append(errs, kind.ExactlyOne(path, nil, 0, alternatives)...)
	case exactly != nil && len(first) > 0:
		return append(errs, kind.ExactlyOne(path, nil, 2, alternatives)...)
	case exactly != nil:
		at := path.Child("exactly")
		return append(errs, deviceWish(&deviceWished{
			exactly.DeviceClassName, exactly.Selectors, exactly.AllocationMode, exactly.Count, exactly.Tolerations,
		}, at)...)
	}
	at := path.Child("firstAvailable")
	errs = append(errs, kind.TooMany(len(first), resourcev1.FirstAvailableDeviceRequestMaxSize, at)...)
	errs = append(errs, kind.Unique(first, func(r resourcev1.DeviceSubRequest) string { return r.Name }, at)...)
	for i, sub := range first {
		errs = append(errs, dnsLabel(sub.Name, at.Index(i).Child("name"))...)
		errs = append(errs, deviceWish(&deviceWished{
			sub.DeviceClassName, sub.Selectors, sub.AllocationMode, sub.Count, sub.Tolerations,
		}, at.Index(i))...)
	}
	return errs
}

// deviceWished is what both forms of a request say.
type deviceWished struct {
	class       string
	selectors   []resourcev1.DeviceSelector
	mode        resourcev1.DeviceAllocationMode
	count       int64
	tolerations []resourcev1.DeviceToleration
}

func deviceWish(wish *deviceWished, path *field.Path) field.ErrorList {
	errs := kind.Required(wish.class, path.Child("deviceClassName"))
	if wish.class != "" {
		errs = append(errs, kind.InvalidIf(validation.IsDNS1123Subdomain(wish.class), wish.class, path.Child("deviceClassName"))...)
	}
	errs = append(errs, deviceSelectors(wish.selectors, path.Child("selectors"))...)
	count := path.Child("count")
	switch wish.mode {
	case resourcev1.DeviceAllocationModeAll:
		if wish.count != 0 {
			errs = append(errs, field.Invalid(count, wish.count, fmt.Sprintf("must not be specified when allocationMode is '%s'", wish.mode)))
		}
	case resourcev1.DeviceAllocationModeExactCount:
		if wish.count <= 0 {
			errs = append(errs, field.Invalid(count, wish.count, "must be greater than zero"))
		}
	default:
		errs = append(errs, kind.OneOf(wish.mode, path.Child("allocationMode"),
			resourcev1.DeviceAllocationModeAll, resourcev1.DeviceAllocationModeExactCount)...)
	}
	for i := range wish.tolerations {
		errs = append(errs, deviceToleration(&wish.tolerations[i], path.Child("tolerations").Index(i))...)
	}
	return errs
}

func deviceToleration(t *resourcev1.DeviceToleration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t.Key != "" {
		errs = append(errs, metavalidation.ValidateLabelName(t.Key, path.Child("key"))...)
	}
	switch t.Operator {
	case resourcev1.DeviceTolerationOpExists:
		if t.Value != "" {
			errs = append(errs, field.Invalid(path.Child("value"), t.Value, "must be empty for operator `Exists`"))
		}
	case resourcev1.DeviceTolerationOpEqual:
		errs = append(errs, kind.InvalidIf(validation.IsValidLabelValue(t.Value), t.Value, path.Child("value"))...)
	default:
		errs = append(errs, kind.OneOf(t.Operator, path.Child("operator"), resourcev1.DeviceTolerationOpEqual, resourcev1.DeviceTolerationOpExists)...)
	}
	if t.Effect != "" {
		errs = append(errs, taintEffect(t.Effect, path.Child("effect"))...)
	}
	return errs
}

func taintEffect(effect resourcev1.DeviceTaintEffect, path *field.Path) field.ErrorList {
	return kind.OneOf(effect, path, resourcev1.DeviceTaintEffectNoExecute, resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNone)
}

func deviceSelectors(selectors []resourcev1.DeviceSelector, path *field.Path) field.ErrorList {
	if errs := kind.TooMany(len(selectors), resourcev1.DeviceSelectorsMaxSize, path); len(errs) > 0 {
		return errs
	}
	var errs field.ErrorList
	for i, selector := range selectors {
		at := path.Index(i).Child("cel")
		switch {
		case selector.CEL == nil:
			errs = append(errs, field.Required(at, ""))
		case len(selector.CEL.Expression) > resourcev1.CELSelectorExpressionMaxLength:
			errs = append(errs, field.TooLong(at.Child("expression"), "", resourcev1.CELSelectorExpressionMaxLength))
		}
	}
	return errs
}

func deviceConfig(config *resourcev1.DeviceConfiguration, path *field.Path) field.ErrorList {
	at := path.Child("opaque")
	if config.Opaque == nil {
		return field.ErrorList{field.Required(at, "")}
	}
	errs := kind.DriverName(config.Opaque.Driver, at.Child("driver"))
	return append(errs, jsonObject(config.Opaque.Parameters, resourcev1.OpaqueParametersMaxLength, at.Child("parameters"))...)
}

func jsonObject(raw runtime.RawExtension, most int, path *field.Path) field.ErrorList {
	var v any
	if len(raw.Raw) > most {
		return field.ErrorList{field.TooLong(path, "", most)}
	}
	if len(raw.Raw) > 0 {
		if err := json.Unmarshal(raw.Raw, &v); err != nil {
			return field.ErrorList{field.Invalid(path, "<value omitted>", fmt.Sprintf("error parsing data as JSON: %v", err))}
		}
	}
	if v == nil {
		return field.ErrorList{field.Required(path, "")}
	}
	if _, ok := v.(map[string]any); !ok {
		return field.ErrorList{field.Invalid(path, "<value omitted>", "must be a valid JSON object")}
	}
	return nil
}

// requestNames are the names by which other parts of a claim mean its requests: "request" and "request/alternative".
func requestNames(claim *resourcev1.DeviceClaim) map[string]bool {
	names := map[string]bool{}
	for _, request := range claim.Requests {
		names[request.Name] = true
		for _, sub := range request.FirstAvailable {
			names[request.Name+"/"+sub.Name] = true
		}
	}
	return names
}

func requestRefs(names []string, known map[string]bool, path *field.Path) field.ErrorList {
	errs := kind.TooMany(len(names), resourcev1.DeviceRequestsMaxSize, path)
	errs = append(errs, kind.Unique(names, func(name string) string { return name }, path)...)
	for i, name := range names {
		errs = append(errs, requestRef(name, known, path.Index(i))...)
	}
	return errs
}

func requestRef(name string, known map[string]bool, path *field.Path) field.ErrorList {
	unknown := field.Invalid(path, name, "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'")
	parts := strings.Split(name, "/")
	if len(parts) > 2 {
		return field.ErrorList{unknown}
	}
	var errs field.ErrorList
	for _, part := range parts {
		errs = append(errs, dnsLabel(part, path)...)
	}
	if !known[name] {
		errs = append(errs, unknown)
	}
	return errs
}

func dnsLabel(name string, path *field.Path) field.ErrorList {
	return kind.InvalidIf(validation.IsDNS1123Label(name), name, path)
}

// qualified checks a name that may have the domain of its driver before it.
func qualified(name string, path *field.Path) field.ErrorList {
	domain, id, found := strings.Cut(name, "/")
	var errs field.ErrorList
	if !found {
		return cIdentifier(name, path)
	}
	if domain == "" {
		errs = append(errs, field.Invalid(path, "", "the domain must not be empty"))
	} else {
		errs = append(errs, kind.DriverName(domain, path)...)
	}
	if id == "" {
		return append(errs, field.Invalid(path, "", "the name must not be empty"))
	}
	return append(errs, cIdentifier(id, path)...)
}

func cIdentifier(id string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(id) > resourcev1.DeviceMaxIDLength {
		errs = append(errs, field.TooLong(path, "", resourcev1.DeviceMaxIDLength))
	}
	return append(errs, kind.InvalidIf(content.IsCIdentifier(id), id, path)...)
}

func fullyQualified(name string, path *field.Path) field.ErrorList {
	errs := qualified(name, path)
	if !strings.Contains(name, "/") {
		errs = append(errs, field.Invalid(path, name, "a fully qualified name must be a domain and a name separated by a slash"))
	}
	return errs
}

func poolName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	if len(name) > resourcev1.PoolNameMaxLength {
		errs = append(errs, field.TooLong(path, "", resourcev1.PoolNameMaxLength))
	}
	for part := range strings.SplitSeq(name, "/") {
		errs = append(errs, kind.InvalidIf(validation.IsDNS1123Subdomain(part), part, path)...)
	}
	return errs
}

// validateResourceClaimStatus checks what a scheduler and drivers write. An allocation stays until it is taken back.
func validateResourceClaimStatus(claim, old *resourcev1.ResourceClaim) field.ErrorList {
	status, was, path := &claim.Status, &old.Status, field.NewPath("status")
	reserved := path.Child("reservedFor")
	errs := kind.TooMany(len(status.ReservedFor), resourcev1.ResourceClaimReservedForMaxSize, reserved)
	errs = append(errs, kind.Unique(status.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) string { return string(r.UID) }, reserved)...)
	for i, consumer := range status.ReservedFor {
		at := reserved.Index(i)
		errs = append(errs, kind.Required(consumer.Resource, at.Child("resource"))...)
		errs = append(errs, kind.Required(consumer.Name, at.Child("name"))...)
		errs = append(errs, kind.Required(string(consumer.UID), at.Child("uid"))...)
		if claim.DeletionTimestamp != nil && status.Allocation != nil && !slices.Contains(was.ReservedFor, consumer) {
			return append(errs, field.Forbidden(reserved,
				"new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"))
		}
	}
	errs = append(errs, deviceStatuses(claim, path.Child("devices"))...)
	if len(status.ReservedFor) > 0 && status.Allocation == nil {
		errs = append(errs, field.Forbidden(reserved, "may not be specified when `allocated` is not set"))
	}
	at := path.Child("allocation")
	switch {
	case status.Allocation == nil:
	case was.Allocation != nil:
		errs = append(errs, kind.Frozen(status.Allocation, was.Allocation, at)...)
	default:
		errs = append(errs, deviceAllocation(&status.Allocation.Devices, requestNames(&claim.Spec.Devices), at.Child("devices"))...)
	}
	return errs
}

func deviceStatuses(claim *resourcev1.ResourceClaim, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	allocated := allocatedDevices(claim)
	for i := range claim.Status.Devices {
		device, at := &claim.Status.Devices[i], path.Index(i)
		errs = append(errs, kind.DriverName(device.Driver, at.Child("driver"))...)
		errs = append(errs, poolName(device.Pool, at.Child("pool"))...)
		errs = append(errs, dnsLabel(device.Device, at.Child("device"))...)
		if key := statusKey(device); !allocated[key] {
			errs = append(errs, field.Invalid(at, key.driver+"/"+key.pool+"/"+key.device, "must be an allocated device in the claim"))
		}
		errs = append(errs, metavalidation.ValidateConditions(device.Conditions, at.Child("conditions"))...)
		if device.Data != nil && len(device.Data.Raw) > 0 {
			errs = append(errs, jsonObject(*device.Data, resourcev1.AllocatedDeviceStatusDataMaxLength, at.Child("data"))...)
		}
	}
	return errs
}

func deviceAllocation(allocation *resourcev1.DeviceAllocationResult, known map[string]bool, path *field.Path) field.ErrorList {
	errs := kind.TooMany(len(allocation.Results), resourcev1.AllocationResultsMaxSize, path.Child("results"))
	for i, result := range allocation.Results {
		at := path.Child("results").Index(i)
		errs = append(errs, requestRef(result.Request, known, at.Child("request"))...)
		errs = append(errs, kind.DriverName(result.Driver, at.Child("driver"))...)
		errs = append(errs, poolName(result.Pool, at.Child("pool"))...)
		errs = append(errs, dnsLabel(result.Device, at.Child("device"))...)
	}
	for i := range allocation.Config {
		config, at := &allocation.Config[i], path.Child("config").Index(i)
		if errs = append(errs, kind.Required(string(config.Source), at.Child("source"))...); config.Source != "" {
			errs = append(errs, kind.OneOf(config.Source, at.Child("source"),
				resourcev1.AllocationConfigSourceClaim, resourcev1.AllocationConfigSourceClass)...)
		}
		errs = append(errs, requestRefs(config.Requests, known, at.Child("requests"))...)
		errs = append(errs, deviceConfig(&config.DeviceConfiguration, at)...)
	}
	return errs
}
