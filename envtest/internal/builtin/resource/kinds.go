// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

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

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// ResourceKinds are devices, the classes of devices, and the claims on them.
func ResourceKinds() []*kind.Kind {
	device := func(kind string) schema.GroupVersionKind { return resourcev1.SchemeGroupVersion.WithKind(kind) }
	return []*kind.Kind{
		{
			GVK: device("DeviceClass"), Resource: "deviceclasses", Cluster: true,
			Rules: kind.Rules{Generation: true, ReturnDeleted: true},
			Hooks: kind.Hooks{Validate: kind.TypedCheck(validateDeviceClass)},
			Table: kind.Show("Age", func(class *resourcev1.DeviceClass) []any { return []any{kind.AgeOf(class)} }),
		},
		{
			GVK: device("ResourceClaim"), Resource: "resourceclaims",
			Rules: kind.Rules{Status: true, ReturnDeleted: true, StatusKeeps: []string{"metadata"}},
			Hooks: kind.Hooks{
				Defaults: kind.Typed(defaultResourceClaim), Validate: kind.TypedCheck(validateResourceClaim),
				PrepareStatus: kind.TypedPrepare(dropDeallocated), ValidateStatus: kind.TypedCheck(validateResourceClaimStatus),
			},
			Table: kind.Show("State,Age", resourceClaimCells),
		},
		{
			GVK: device("ResourceClaimTemplate"), Resource: "resourceclaimtemplates",
			Rules: kind.Rules{ReturnDeleted: true},
			Hooks: kind.Hooks{Defaults: kind.Typed(defaultResourceClaimTemplate), Validate: kind.TypedCheck(validateResourceClaimTemplate)},
			Table: kind.Show("Age", func(template *resourcev1.ResourceClaimTemplate) []any { return []any{kind.AgeOf(template)} }),
		},
		{
			GVK: device("ResourceSlice"), Resource: "resourceslices", Cluster: true,
			Rules: kind.Rules{Generation: true, ReturnDeleted: true},
			Hooks: kind.Hooks{
				Defaults: kind.Typed(defaultResourceSlice), Validate: kind.TypedCheck(validateResourceSlice),
				Triggers: storage.IndexerFuncs{resourcev1.ResourceSliceSelectorNodeName: resourceSliceNode},
			},
			Warn: kind.WarnHooks{Object: kind.TypedWarn(warnResourceSlice)},
			Fields: kind.Selectable(func(slice *resourcev1.ResourceSlice, set fields.Set) {
				set[resourcev1.ResourceSliceSelectorNodeName] = resourceSliceNode(slice)
				set[resourcev1.ResourceSliceSelectorDriver] = slice.Spec.Driver
			}, resourcev1.ResourceSliceSelectorNodeName, resourcev1.ResourceSliceSelectorDriver),
			Table: kind.Show("Node,Driver,Pool,Age", func(slice *resourcev1.ResourceSlice) []any {
				return []any{resourceSliceNode(slice), slice.Spec.Driver, slice.Spec.Pool.Name, kind.AgeOf(slice)}
			}),
		},
	}
}

// resourceSliceNode is the node whose devices a slice lists, or "".
func resourceSliceNode(obj runtime.Object) string {
	if name := kind.MustBe[*resourcev1.ResourceSlice](obj).Spec.NodeName; name != nil {
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
		kind.Unset(mode, resourcev1.DeviceAllocationModeExactCount)
		if *mode == resourcev1.DeviceAllocationModeExactCount {
			kind.Unset(count, 1)
		}
	}
	equal := func(t *resourcev1.DeviceToleration) { kind.Unset(&t.Operator, resourcev1.DeviceTolerationOpEqual) }
	kind.Each(spec.Devices.Requests, func(r *resourcev1.DeviceRequest) {
		if r.Exactly != nil {
			one(&r.Exactly.AllocationMode, &r.Exactly.Count)
			kind.Each(r.Exactly.Tolerations, equal)
		}
		kind.Each(r.FirstAvailable, func(s *resourcev1.DeviceSubRequest) {
			one(&s.AllocationMode, &s.Count)
			kind.Each(s.Tolerations, equal)
		})
	})
}

// defaultResourceSlice notes when devices were tainted.
func defaultResourceSlice(slice *resourcev1.ResourceSlice) {
	kind.Each(slice.Spec.Devices, func(device *resourcev1.Device) {
		kind.Each(device.Taints, func(taint *resourcev1.DeviceTaint) {
			kind.Missing(&taint.TimeAdded, metav1.Time{Time: time.Now().Truncate(time.Second)})
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
	return []any{strings.Join(states, ","), kind.AgeOf(claim)}
}
