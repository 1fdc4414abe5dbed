// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"context"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestJobSelector(t *testing.T) {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j", UID: "u"}}
	prepareJob(context.Background(), job, nil)
	if job.Spec.Selector.MatchLabels[batchv1.ControllerUidLabel] != "u" || job.Spec.Template.Labels[batchv1.JobNameLabel] != "j" {
		t.Errorf("selector %v, labels %v", job.Spec.Selector, job.Spec.Template.Labels)
	}
	manual := &batchv1.Job{Spec: batchv1.JobSpec{ManualSelector: ptr.To(true)}}
	prepareJob(context.Background(), manual, nil)
	if manual.Spec.Selector != nil {
		t.Errorf("a manual selector became %v", manual.Spec.Selector)
	}
}
