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

func defaultPodTemplate(template *corev1.PodTemplate) { podspec.DefaultTemplate(&template.Template) }

func podTemplateCells(template *corev1.PodTemplate) []any {
	return append(kind.ContainersAndImages(&template.Template.Spec), labels.FormatLabels(template.Template.Labels))
}

func validatePodTemplate(template, _ *corev1.PodTemplate) field.ErrorList {
	return podspec.ValidateTemplate(&template.Template, field.NewPath("template"))
}

// warnPodTemplate warns of the kind that is a template alone.
func warnPodTemplate(w *kind.Warnings, template, _ *corev1.PodTemplate) {
	podspec.WarnTemplate(w, &template.Template, field.NewPath("template"))
}
