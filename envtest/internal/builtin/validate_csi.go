// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The rules are those of kube-apiserver's pkg/apis/storage/validation.

func validateCSIDriver(driver, old *storagev1.CSIDriver) field.ErrorList {
	var f faults
	spec, at := &driver.Spec, specPath()
	f.need(spec.AttachRequired != nil, at.Child("attachedRequired"))
	f.need(spec.PodInfoOnMount != nil, at.Child("podInfoOnMount"))
	f.need(spec.StorageCapacity != nil, at.Child("storageCapacity"))
	chosen(&f, spec.FSGroupPolicy, at.Child("fsGroupPolicy"),
		storagev1.FileFSGroupPolicy, storagev1.NoneFSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
	audiences := sets.New[string]()
	for i, request := range spec.TokenRequests {
		here := at.Child("tokenRequests").Index(i)
		if audiences.Has(request.Audience) {
			f.list = append(f.list, field.Duplicate(here.Child("audience"), request.Audience))
			continue
		}
		audiences.Insert(request.Audience)
		if seconds := request.ExpirationSeconds; seconds != nil {
			f.invalid(*seconds < 600, here.Child("expirationSeconds"), *seconds, "may not specify a duration less than 10 minutes")
			f.invalid(*seconds > 1<<32, here.Child("expirationSeconds"), *seconds, "may not specify a duration larger than 2^32 seconds")
		}
	}
	for _, mode := range spec.VolumeLifecycleModes {
		known(&f, mode, at.Child("volumeLifecycleModes"), storagev1.VolumeLifecycleEphemeral, storagev1.VolumeLifecyclePersistent)
	}
	if period := spec.NodeAllocatableUpdatePeriodSeconds; period != nil {
		f.invalid(*period < 10, at.Child("nodeAllocatableUpdatePeriodSeconds"), *period, "must be greater than or equal to 10 seconds")
	}
	f.invalid(spec.ServiceAccountTokenInSecrets != nil && len(spec.TokenRequests) == 0, at.Child("serviceAccountTokenInSecrets"),
		spec.ServiceAccountTokenInSecrets, "serviceAccountTokenInSecrets is set but no tokenRequests are specified")
	if old != nil {
		f.add(frozen(spec.AttachRequired, old.Spec.AttachRequired, at.Child("attachedRequired")))
		f.add(frozen(spec.VolumeLifecycleModes, old.Spec.VolumeLifecycleModes, at.Child("volumeLifecycleModes")))
	}
	return f.list
}

// validateCSINode checks the drivers of a node. One that was there stays what it was, but for what it can attach.
func validateCSINode(node, old *storagev1.CSINode) field.ErrorList {
	var f faults
	names := sets.New[string]()
	for i := range node.Spec.Drivers {
		driver, at := &node.Spec.Drivers[i], specPath("drivers").Index(i)
		f.csiDriver(driver.Name, at.Child("name"))
		f.text(driver.NodeID, at.Child("nodeID"))
		if len(driver.NodeID) > 256 {
			f.list = append(f.list, field.TooLong(at.Child("nodeID"), "", 256))
		}
		if driver.Allocatable != nil && driver.Allocatable.Count != nil {
			f.notNegative(int64(*driver.Allocatable.Count), at.Child("allocatable", "count"))
		}
		f.unique(driver.Name, names, at.Child("name"))
		keys := sets.New[string]()
		for _, key := range driver.TopologyKeys {
			f.text(key, at)
			f.unique(key, keys, at)
			f.messages(validation.IsQualifiedName(key), key, at)
		}
	}
	if old == nil {
		return f.list
	}
	for i := range node.Spec.Drivers {
		now := node.Spec.Drivers[i]
		for _, was := range old.Spec.Drivers {
			now.Allocatable, was.Allocatable = nil, nil
			f.invalid(now.Name == was.Name && !apiequality.Semantic.DeepEqual(now, was), specPath("drivers"), was, "field is immutable")
		}
	}
	return f.list
}
