// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/podspec"
)

// prepareJob gives a new Job a selector of its own, unless the client wants to choose one.
func prepareJob(_ context.Context, job, old *batchv1.Job) {
	podspec.DropDisabled(&job.Spec.Template.Spec)
	if old != nil || kind.IsTrue(job.Spec.ManualSelector) {
		return
	}
	if job.Spec.Template.Labels == nil {
		job.Spec.Template.Labels = map[string]string{}
	}
	// Each label has a new and an old name.
	for _, label := range []string{batchv1.JobNameLabel, "job-name"} {
		setOnce(job.Spec.Template.Labels, label, job.Name)
	}
	for _, label := range []string{batchv1.ControllerUidLabel, "controller-uid"} {
		setOnce(job.Spec.Template.Labels, label, string(job.UID))
	}
	if job.Spec.Selector == nil {
		job.Spec.Selector = &metav1.LabelSelector{}
	}
	if job.Spec.Selector.MatchLabels == nil {
		job.Spec.Selector.MatchLabels = map[string]string{}
	}
	setOnce(job.Spec.Selector.MatchLabels, batchv1.ControllerUidLabel, string(job.UID))
}

// setOnce keeps a label that the client has set; validation finds a wrong one.
func setOnce(labels map[string]string, key, value string) {
	if _, ok := labels[key]; !ok {
		labels[key] = value
	}
}
