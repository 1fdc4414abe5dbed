// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/podspec"
)

func defaultReplicationController(rc *corev1.ReplicationController) {
	kind.Missing(&rc.Spec.Replicas, 1)
	if rc.Spec.Template == nil {
		return
	}
	podspec.DefaultTemplate(rc.Spec.Template)
	labels := rc.Spec.Template.Labels
	if labels == nil {
		return
	}
	if len(rc.Spec.Selector) == 0 {
		rc.Spec.Selector = labels
	}
	if len(rc.Labels) == 0 {
		rc.Labels = labels
	}
}

func replicationControllerCells(rc *corev1.ReplicationController) []any {
	cells := []any{int64(*rc.Spec.Replicas), int64(rc.Status.Replicas), int64(rc.Status.ReadyReplicas), kind.AgeOf(rc)}
	return append(append(cells, kind.ContainersAndImages(&rc.Spec.Template.Spec)...), labels.FormatLabels(rc.Spec.Selector))
}

// validateReplicationController checks selector and template.
func validateReplicationController(rc, old *corev1.ReplicationController) field.ErrorList {
	path := kind.SpecPath()
	errs := kind.NotNegative(rc.Spec.Replicas, path.Child("replicas"))
	if old != nil {
		var f kind.Findings
		checkNonConvertible(&f, rc, old)
		errs = append(errs, f.List...)
	}
	if len(rc.Spec.Selector) == 0 {
		errs = append(errs, field.Required(path.Child("selector"), ""))
	}
	errs = append(errs, kind.NotNegative(&rc.Spec.MinReadySeconds, path.Child("minReadySeconds"))...)
	if rc.Spec.Template == nil {
		return append(errs, field.Required(path.Child("template"), ""))
	}
	for key, value := range rc.Spec.Selector {
		if got, ok := rc.Spec.Template.Labels[key]; !ok || got != value {
			errs = append(errs, field.Invalid(path.Child("template", "metadata", "labels"), rc.Spec.Template.Labels, "`selector` does not match template `labels`"))
			break
		}
	}
	return append(errs, podspec.ValidateTemplate(rc.Spec.Template, path.Child("template"), corev1.RestartPolicyAlways)...)
}

// warnReplicationController looks at the template that was before an update, as a kube-apiserver does.
func warnReplicationController(w *kind.Warnings, o, old *corev1.ReplicationController) {
	w.Label(o.Name, kind.InPodNames)
	template := o.Spec.Template
	if old != nil {
		template = old.Spec.Template
	}
	podspec.WarnTemplate(w, template, kind.SpecPath("template"))
}
