// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

func defaultStorageClass(class *storagev1.StorageClass) {
	kind.Missing(&class.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
	kind.Missing(&class.VolumeBindingMode, storagev1.VolumeBindingImmediate)
}

func defaultCSIDriver(driver *storagev1.CSIDriver) {
	kind.Missing(&driver.Spec.AttachRequired, true)
	kind.Missing(&driver.Spec.PodInfoOnMount, false)
	kind.Missing(&driver.Spec.StorageCapacity, false)
	kind.Missing(&driver.Spec.RequiresRepublish, false)
	kind.Missing(&driver.Spec.SELinuxMount, false)
	kind.Missing(&driver.Spec.FSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
	if len(driver.Spec.VolumeLifecycleModes) == 0 {
		driver.Spec.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
	}
}

func StorageKinds() []*kind.Kind {
	storage := func(kind string) schema.GroupVersionKind { return storagev1.SchemeGroupVersion.WithKind(kind) }
	return []*kind.Kind{
		{
			GVK: storage("StorageClass"), Resource: "storageclasses", Short: []string{"sc"}, Cluster: true,
			Rules: kind.Rules{ReturnDeleted: true},
			Hooks: kind.Hooks{Defaults: kind.Typed(defaultStorageClass), Validate: kind.TypedCheck(validateStorageClass)},
			Warn:  kind.WarnHooks{Object: kind.TypedWarn(warnStorageClass)},
			Table: kind.Show("Name,Provisioner,ReclaimPolicy,VolumeBindingMode,AllowVolumeExpansion,Age", storageClassCells),
		},
		{
			GVK: storage("CSIDriver"), Resource: "csidrivers", Cluster: true,
			Rules: kind.Rules{ReturnDeleted: true, NeedVersion: true},
			Hooks: kind.Hooks{Defaults: kind.Typed(defaultCSIDriver), Prepare: kind.TypedPrepare(prepareCSIDriver), Validate: kind.TypedCheck(validateCSIDriver)},
			Warn:  kind.WarnHooks{Object: kind.TypedWarn(warnCSIDriver)},
			Table: kind.Show("AttachRequired?,PodInfoOnMount?,StorageCapacity?,TokenRequests,RequiresRepublish?,Modes,Age", csiDriverCells),
		},
		{
			GVK: storage("CSINode"), Resource: "csinodes", Cluster: true,
			Rules: kind.Rules{ReturnDeleted: true, NeedVersion: true},
			Hooks: kind.Hooks{Prepare: kind.TypedPrepare(prepareCSINode), Validate: kind.TypedCheck(validateCSINode)},
			Table: kind.Show("Drivers#,Age", csiNodeCells),
		},
		{
			GVK: storage("VolumeAttachment"), Resource: "volumeattachments", Cluster: true,
			Rules: kind.Rules{Status: true, ReturnDeleted: true, NeedVersion: true, StatusKeeps: []string{"metadata"}},
			Hooks: kind.Hooks{Validate: kind.TypedCheck(validateVolumeAttachment), ValidateStatus: kind.TypedCheck(validateVolumeAttachmentStatus)},
			Table: kind.Show("Attacher@,PV,Node,Attached?,Age", volumeAttachmentCells),
		},
		{
			GVK: storage("VolumeAttributesClass"), Resource: "volumeattributesclasses", Short: []string{"vac"}, Cluster: true,
			Rules: kind.Rules{ReturnDeleted: true},
			Hooks: kind.Hooks{Validate: kind.TypedCheck(validateVolumeAttributesClass)},
			Table: kind.Show("DriverName,Age", volumeAttributesClassCells),
		},
		{
			GVK: storage("CSIStorageCapacity"), Resource: "csistoragecapacities",
			Rules: kind.Rules{NeedVersion: true},
			Hooks: kind.Hooks{Validate: kind.TypedCheck(validateCSIStorageCapacity)},
			Warn:  kind.WarnHooks{Object: kind.TypedWarn(warnCSIStorageCapacity)},
		},
	}
}

// prepareCSIDriver counts changes, from zero on, and drops the field of a feature that is off.
func prepareCSIDriver(_ context.Context, driver, old *storagev1.CSIDriver) {
	driver.Spec.PreventPodSchedulingIfMissing = nil
	if old != nil && !apiequality.Semantic.DeepEqual(driver.Spec, old.Spec) {
		driver.Generation = old.Generation + 1
	}
}

// prepareCSINode drops the status: no kubelet writes it yet, and there is no subresource for it.
func prepareCSINode(_ context.Context, node, _ *storagev1.CSINode) {
	node.Status = storagev1.CSINodeStatus{}
}
