// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package apps

import (
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/podspec"
)

func defaultDeployment(d *appsv1.Deployment) {
	podspec.DefaultTemplate(&d.Spec.Template)
	kind.Missing(&d.Spec.Replicas, 1)
	kind.Missing(&d.Spec.RevisionHistoryLimit, 10)
	kind.Missing(&d.Spec.ProgressDeadlineSeconds, 600)
	kind.Unset(&d.Spec.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
	if d.Spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
		kind.Missing(&d.Spec.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
		kind.Missing(&d.Spec.Strategy.RollingUpdate.MaxUnavailable, intstr.FromString("25%"))
		kind.Missing(&d.Spec.Strategy.RollingUpdate.MaxSurge, intstr.FromString("25%"))
	}
}

func defaultReplicaSet(rs *appsv1.ReplicaSet) {
	podspec.DefaultTemplate(&rs.Spec.Template)
	kind.Missing(&rs.Spec.Replicas, 1)
}

func defaultStatefulSet(s *appsv1.StatefulSet) {
	podspec.DefaultTemplate(&s.Spec.Template)
	kind.Missing(&s.Spec.Replicas, 1)
	kind.Missing(&s.Spec.RevisionHistoryLimit, 10)
	kind.Unset(&s.Spec.PodManagementPolicy, appsv1.OrderedReadyPodManagement)
	if s.Spec.UpdateStrategy.Type == "" {
		s.Spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
		kind.Missing(&s.Spec.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateStatefulSetStrategy{})
	}
	if rolling := s.Spec.UpdateStrategy.RollingUpdate; rolling != nil && s.Spec.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType {
		kind.Missing(&rolling.Partition, 0)
	}
	kind.Missing(&s.Spec.PersistentVolumeClaimRetentionPolicy, appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{})
	kind.Unset(&s.Spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	kind.Unset(&s.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	kind.Each(s.Spec.VolumeClaimTemplates, func(pvc *corev1.PersistentVolumeClaim) {
		pvc.Kind, pvc.APIVersion = "PersistentVolumeClaim", "v1"
		podspec.DefaultPersistentVolumeClaim(pvc)
	})
}

// readDaemonSet and readDeployment refuse an annotation that is to be a number and is none: a kube-apiserver reads the number into a
// field. Others are written in their usual form.
func readDaemonSet(ds *appsv1.DaemonSet) error {
	return readNumber(ds.Annotations, appsv1.DeprecatedTemplateGeneration)
}

func readDeployment(d *appsv1.Deployment) error {
	if d.Annotations[appsv1.DeprecatedRollbackTo] == "" { // it has nothing to say
		delete(d.Annotations, appsv1.DeprecatedRollbackTo)
	}
	return readNumber(d.Annotations, appsv1.DeprecatedRollbackTo)
}

func readNumber(annotations map[string]string, key string) error {
	text, ok := annotations[key]
	if !ok {
		return nil
	}
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("failed to parse annotation[%s]=%s as int64: %w", key, text, err)
	}
	annotations[key] = strconv.FormatInt(number, 10)
	return nil
}

func defaultDaemonSet(ds *appsv1.DaemonSet) {
	podspec.DefaultTemplate(&ds.Spec.Template)
	if _, ok := ds.Annotations[appsv1.DeprecatedTemplateGeneration]; !ok { // the writer owns the annotation in any case
		ds.Annotations = kind.Merged(ds.Annotations, map[string]string{appsv1.DeprecatedTemplateGeneration: "0"})
	}
	kind.Missing(&ds.Spec.RevisionHistoryLimit, 10)
	kind.Unset(&ds.Spec.UpdateStrategy.Type, appsv1.RollingUpdateDaemonSetStrategyType)
	if ds.Spec.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		kind.Missing(&ds.Spec.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateDaemonSet{})
		kind.Missing(&ds.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
		kind.Missing(&ds.Spec.UpdateStrategy.RollingUpdate.MaxSurge, intstr.FromInt32(0))
	}
	if rolling := ds.Spec.UpdateStrategy.RollingUpdate; rolling != nil { // of another strategy
		kind.Missing(&rolling.MaxUnavailable, intstr.FromInt32(0))
		kind.Missing(&rolling.MaxSurge, intstr.FromInt32(0))
	}
}
