// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

func warnStorageClass(w *kind.Warnings, class, _ *storagev1.StorageClass) {
	for i, term := range class.AllowedTopologies {
		for j, e := range term.MatchLabelExpressions {
			w.NodeLabel(e.Key, field.NewPath("allowedTopologies").Index(i).Child("matchLabelExpressions").Index(j).Child("key"))
		}
	}
}

func warnCSIStorageCapacity(w *kind.Warnings, capacity, _ *storagev1.CSIStorageCapacity) {
	selector, at := capacity.NodeTopology, field.NewPath("nodeTopology")
	if selector == nil {
		return
	}
	for i, e := range selector.MatchExpressions {
		w.NodeKey(e.Key, at.Child("matchExpressions").Index(i).Child("key"))
	}
	for key := range selector.MatchLabels {
		w.NodeLabel(key, at.Child("matchLabels").Child(key))
	}
}

// warnCSIDriver warns of tokens that may be logged.
func warnCSIDriver(w *kind.Warnings, driver, old *storagev1.CSIDriver) {
	tokens := driver.Spec.TokenRequests
	same := old != nil && apiequality.Semantic.DeepEqual(tokens, old.Spec.TokenRequests)
	w.SayIf(len(tokens) > 0 && !same && driver.Spec.ServiceAccountTokenInSecrets == nil, "spec.serviceAccountTokenInSecrets is unset; "+
		"if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes")
}
