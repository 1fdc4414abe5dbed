// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/podspec"
)

// The rules are those of kube-apiserver's pkg/apis/storage/validation.

func validateCSIDriver(driver, old *storagev1.CSIDriver) field.ErrorList {
	var f kind.Findings
	spec, at := &driver.Spec, kind.SpecPath()
	f.Need(spec.AttachRequired != nil, at.Child("attachedRequired"))
	f.Need(spec.PodInfoOnMount != nil, at.Child("podInfoOnMount"))
	f.Need(spec.StorageCapacity != nil, at.Child("storageCapacity"))
	kind.Chosen(&f, spec.FSGroupPolicy, at.Child("fsGroupPolicy"),
		storagev1.FileFSGroupPolicy, storagev1.NoneFSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
	audiences := sets.New[string]()
	for i, request := range spec.TokenRequests {
		here := at.Child("tokenRequests").Index(i)
		if audiences.Has(request.Audience) {
			f.List = append(f.List, field.Duplicate(here.Child("audience"), request.Audience))
			continue
		}
		audiences.Insert(request.Audience)
		if seconds := request.ExpirationSeconds; seconds != nil {
			f.Invalid(*seconds < 600, here.Child("expirationSeconds"), *seconds, "may not specify a duration less than 10 minutes")
			f.Invalid(*seconds > 1<<32, here.Child("expirationSeconds"), *seconds, "may not specify a duration larger than 2^32 seconds")
		}
	}
	for _, mode := range spec.VolumeLifecycleModes {
		kind.Known(&f, mode, at.Child("volumeLifecycleModes"), storagev1.VolumeLifecycleEphemeral, storagev1.VolumeLifecyclePersistent)
	}
	if period := spec.NodeAllocatableUpdatePeriodSeconds; period != nil {
		f.Invalid(*period < 10, at.Child("nodeAllocatableUpdatePeriodSeconds"), *period, "must be greater than or equal to 10 seconds")
	}
	f.Invalid(spec.ServiceAccountTokenInSecrets != nil && len(spec.TokenRequests) == 0, at.Child("serviceAccountTokenInSecrets"),
		spec.ServiceAccountTokenInSecrets, "serviceAccountTokenInSecrets is set but no tokenRequests are specified")
	if old != nil {
		f.Add(kind.Frozen(spec.AttachRequired, old.Spec.AttachRequired, at.Child("attachedRequired")))
		f.Add(kind.Frozen(spec.VolumeLifecycleModes, old.Spec.VolumeLifecycleModes, at.Child("volumeLifecycleModes")))
	}
	return f.List
}

// validateCSINode checks the drivers of a node. An old driver stays as it was, but for what it can attach.
func validateCSINode(node, old *storagev1.CSINode) field.ErrorList {
	var f kind.Findings
	names := sets.New[string]()
	for i := range node.Spec.Drivers {
		driver, at := &node.Spec.Drivers[i], kind.SpecPath("drivers").Index(i)
		podspec.CheckCsiDriver(&f, driver.Name, at.Child("name"))
		f.Text(driver.NodeID, at.Child("nodeID"))
		if len(driver.NodeID) > 256 {
			f.List = append(f.List, field.TooLong(at.Child("nodeID"), "", 256))
		}
		if driver.Allocatable != nil && driver.Allocatable.Count != nil {
			f.NotNegative(int64(*driver.Allocatable.Count), at.Child("allocatable", "count"))
		}
		f.Unique(driver.Name, names, at.Child("name"))
		keys := sets.New[string]()
		for _, key := range driver.TopologyKeys {
			f.Text(key, at)
			f.Unique(key, keys, at)
			f.Messages(validation.IsQualifiedName(key), key, at)
		}
	}
	if old == nil {
		return f.List
	}
	for i := range node.Spec.Drivers {
		now := node.Spec.Drivers[i]
		for _, was := range old.Spec.Drivers {
			now.Allocatable, was.Allocatable = nil, nil
			f.Invalid(now.Name == was.Name && !apiequality.Semantic.DeepEqual(now, was), kind.SpecPath("drivers"), was, "field is immutable")
		}
	}
	return f.List
}
