// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package apps

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

func deploymentCells(d *appsv1.Deployment) []any {
	cells := []any{
		fmt.Sprintf("%d/%d", d.Status.ReadyReplicas, *d.Spec.Replicas), int64(d.Status.UpdatedReplicas), int64(d.Status.AvailableReplicas), kind.AgeOf(d),
	}
	return append(append(cells, kind.ContainersAndImages(&d.Spec.Template.Spec)...), metav1.FormatLabelSelector(d.Spec.Selector))
}

func replicaSetCells(rs *appsv1.ReplicaSet) []any {
	cells := []any{int64(*rs.Spec.Replicas), int64(rs.Status.Replicas), int64(rs.Status.ReadyReplicas), kind.AgeOf(rs)}
	return append(append(cells, kind.ContainersAndImages(&rs.Spec.Template.Spec)...), metav1.FormatLabelSelector(rs.Spec.Selector))
}

func statefulSetCells(s *appsv1.StatefulSet) []any {
	cells := []any{fmt.Sprintf("%d/%d", s.Status.ReadyReplicas, *s.Spec.Replicas), kind.AgeOf(s)}
	return append(cells, kind.ContainersAndImages(&s.Spec.Template.Spec)...)
}

func daemonSetCells(ds *appsv1.DaemonSet) []any {
	cells := []any{
		int64(ds.Status.DesiredNumberScheduled), int64(ds.Status.CurrentNumberScheduled), int64(ds.Status.NumberReady),
		int64(ds.Status.UpdatedNumberScheduled), int64(ds.Status.NumberAvailable),
		labels.FormatLabels(ds.Spec.Template.Spec.NodeSelector), kind.AgeOf(ds),
	}
	return append(append(cells, kind.ContainersAndImages(&ds.Spec.Template.Spec)...), metav1.FormatLabelSelector(ds.Spec.Selector))
}

func controllerRevisionCells(revision *appsv1.ControllerRevision) []any {
	owner := "<none>"
	if ref := metav1.GetControllerOf(revision); ref != nil {
		group, _, _ := strings.Cut(ref.APIVersion, "/")
		owner = strings.ToLower(ref.Kind) + "." + group + "/" + ref.Name
	}
	return []any{owner, revision.Revision, kind.AgeOf(revision)}
}
