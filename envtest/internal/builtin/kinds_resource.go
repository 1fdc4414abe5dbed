// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"context"
	"strings"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
)

// resourceKinds are devices, the classes of devices, and the claims on them.
func resourceKinds() []*kind {
	device := func(kind string) schema.GroupVersionKind { return resourcev1.SchemeGroupVersion.WithKind(kind) }
	return []*kind{
		{
			gvk: device("DeviceClass"), resource: "deviceclasses", cluster: true,
			rules: rules{generation: true, returnDeleted: true},
			hooks: hooks{validate: typedCheck(validateDeviceClass)},
			table: show("Age", func(class *resourcev1.DeviceClass) []any { return []any{ageOf(class)} }),
		},
		{
			gvk: device("ResourceClaim"), resource: "resourceclaims",
			rules: rules{status: true, returnDeleted: true, statusKeeps: []string{"metadata"}},
			hooks: hooks{
				defaults: typed1(defaultResourceClaim), validate: typedCheck(validateResourceClaim),
				prepareStatus: typedPrepare(dropDeallocated), validateStatus: typedCheck(validateResourceClaimStatus),
			},
			table: show("State,Age", resourceClaimCells),
		},
		{
			gvk: device("ResourceClaimTemplate"), resource: "resourceclaimtemplates",
			rules: rules{returnDeleted: true},
			hooks: hooks{defaults: typed1(defaultResourceClaimTemplate), validate: typedCheck(validateResourceClaimTemplate)},
			table: show("Age", func(template *resourcev1.ResourceClaimTemplate) []any { return []any{ageOf(template)} }),
		},
		{
			gvk: device("ResourceSlice"), resource: "resourceslices", cluster: true,
			rules: rules{generation: true, returnDeleted: true},
			hooks: hooks{
				defaults: typed1(defaultResourceSlice), validate: typedCheck(validateResourceSlice),
				triggers: storage.IndexerFuncs{resourcev1.ResourceSliceSelectorNodeName: resourceSliceNode},
			},
			warn: warnHooks{object: typedWarn(warnResourceSlice)},
			fields: selectable(func(slice *resourcev1.ResourceSlice, set fields.Set) {
				set[resourcev1.ResourceSliceSelectorNodeName] = resourceSliceNode(slice)
				set[resourcev1.ResourceSliceSelectorDriver] = slice.Spec.Driver
			}, resourcev1.ResourceSliceSelectorNodeName, resourcev1.ResourceSliceSelectorDriver),
			table: show("Node,Driver,Pool,Age", func(slice *resourcev1.ResourceSlice) []any {
				return []any{resourceSliceNode(slice), slice.Spec.Driver, slice.Spec.Pool.Name, ageOf(slice)}
			}),
		},
	}
}

// resourceSliceNode is the node whose devices a slice lists, or "".
func resourceSliceNode(obj runtime.Object) string {
	if name := mustBe[*resourcev1.ResourceSlice](obj).Spec.NodeName; name != nil {
		return *name
	}
	return ""
}

func defaultResourceClaim(claim *resourcev1.ResourceClaim) { defaultDeviceClaim(&claim.Spec) }

func defaultResourceClaimTemplate(template *resourcev1.ResourceClaimTemplate) {
	defaultDeviceClaim(&template.Spec.Spec)
}

// defaultDeviceClaim makes a request one for one device.
func defaultDeviceClaim(spec *resourcev1.ResourceClaimSpec) {
	one := func(mode *resourcev1.DeviceAllocationMode, count *int64) {
		unset(mode, resourcev1.DeviceAllocationModeExactCount)
		if *mode == resourcev1.DeviceAllocationModeExactCount {
			unset(count, 1)
		}
	}
	equal := func(t *resourcev1.DeviceToleration) { unset(&t.Operator, resourcev1.DeviceTolerationOpEqual) }
	each(spec.Devices.Requests, func(r *resourcev1.DeviceRequest) {
		if r.Exactly != nil {
			one(&r.Exactly.AllocationMode, &r.Exactly.Count)
			each(r.Exactly.Tolerations, equal)
		}
		each(r.FirstAvailable, func(s *resourcev1.DeviceSubRequest) {
			one(&s.AllocationMode, &s.Count)
			each(s.Tolerations, equal)
		})
	})
}

// defaultResourceSlice notes when devices were tainted.
func defaultResourceSlice(slice *resourcev1.ResourceSlice) {
	each(slice.Spec.Devices, func(device *resourcev1.Device) {
		each(device.Taints, func(taint *resourcev1.DeviceTaint) {
			missing(&taint.TimeAdded, metav1.Time{Time: time.Now().Truncate(time.Second)})
		})
	})
}

// deviceKey names an allocated device, or the share of one.
type deviceKey struct{ driver, pool, device, share string }

func allocatedDevices(claim *resourcev1.ResourceClaim) map[deviceKey]bool {
	allocated := map[deviceKey]bool{}
	if claim.Status.Allocation == nil {
		return allocated
	}
	for _, result := range claim.Status.Allocation.Devices.Results {
		key := deviceKey{driver: result.Driver, pool: result.Pool, device: result.Device}
		if result.ShareID != nil {
			key.share = string(*result.ShareID)
		}
		allocated[key] = true
	}
	return allocated
}

func statusKey(device *resourcev1.AllocatedDeviceStatus) deviceKey {
	key := deviceKey{driver: device.Driver, pool: device.Pool, device: device.Device}
	if device.ShareID != nil {
		key.share = *device.ShareID
	}
	return key
}

// dropDeallocated drops what drivers reported about devices that the claim has just lost.
func dropDeallocated(_ context.Context, claim, old *resourcev1.ResourceClaim) {
	had, has := allocatedDevices(old), allocatedDevices(claim)
	var kept []resourcev1.AllocatedDeviceStatus
	for _, device := range claim.Status.Devices {
		if key := statusKey(&device); !had[key] || has[key] {
			kept = append(kept, device)
		}
	}
	claim.Status.Devices = kept
}

func resourceClaimCells(claim *resourcev1.ResourceClaim) []any {
	var states []string
	if claim.DeletionTimestamp != nil {
		states = append(states, "deleted")
	}
	switch {
	case claim.Status.Allocation != nil && len(claim.Status.ReservedFor) > 0:
		states = append(states, "allocated", "reserved")
	case claim.Status.Allocation != nil:
		states = append(states, "allocated")
	case claim.DeletionTimestamp == nil:
		states = append(states, "pending")
	}
	return []any{strings.Join(states, ","), ageOf(claim)}
}
