// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"strings"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// Which class is the default says one of these annotations, of the value "true".
const (
	DefaultClass     = "storageclass.kubernetes.io/is-default-class"
	DefaultClassBeta = "storageclass.beta.kubernetes.io/is-default-class"
)

func storageClassCells(class *storagev1.StorageClass) []any {
	name := class.Name
	if kind.IsDefault(&class.ObjectMeta, DefaultClass, DefaultClassBeta) {
		name += " (default)"
	}
	return []any{
		name, class.Provisioner, kind.Value(class.ReclaimPolicy, "Delete"), kind.Value(class.VolumeBindingMode, "<unset>"),
		kind.IsTrue(class.AllowVolumeExpansion), kind.AgeOf(class),
	}
}

func csiDriverCells(driver *storagev1.CSIDriver) []any {
	var modes, audiences []string
	tokens := "<unset>"
	for _, mode := range driver.Spec.VolumeLifecycleModes {
		modes = append(modes, string(mode))
	}
	for _, request := range driver.Spec.TokenRequests {
		audiences = append(audiences, request.Audience)
		tokens = strings.Join(audiences, ",")
	}
	return []any{
		kind.IsTrue(driver.Spec.AttachRequired), kind.IsTrue(driver.Spec.PodInfoOnMount), kind.IsTrue(driver.Spec.StorageCapacity),
		tokens, kind.IsTrue(driver.Spec.RequiresRepublish), kind.Or(strings.Join(modes, ","), "<none>"), kind.AgeOf(driver),
	}
}

func csiNodeCells(node *storagev1.CSINode) []any {
	return []any{int64(len(node.Spec.Drivers)), kind.AgeOf(node)}
}

func volumeAttachmentCells(a *storagev1.VolumeAttachment) []any {
	return []any{a.Spec.Attacher, kind.Value(a.Spec.Source.PersistentVolumeName, ""), a.Spec.NodeName, a.Status.Attached, kind.AgeOf(a)}
}

func volumeAttributesClassCells(class *storagev1.VolumeAttributesClass) []any {
	return []any{class.DriverName, kind.AgeOf(class)}
}
