// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package apps

import (
	"encoding/json"
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/podspec"
)

// The rules are those of kube-apiserver's pkg/apis/apps/validation/validation.go.

func validateDeployment(d, old *appsv1.Deployment) field.ErrorList {
	var f kind.Findings
	spec, at := &d.Spec, kind.SpecPath()
	f.Add(kind.NotNegative(spec.Replicas, at.Child("replicas")))
	checkRollback(&f, d)
	f.Add(kind.NotNegative(spec.RevisionHistoryLimit, at.Child("revisionHistoryLimit")))
	f.NotNegative(int64(spec.MinReadySeconds), at.Child("minReadySeconds"))
	if seconds := spec.ProgressDeadlineSeconds; seconds != nil {
		f.NotNegative(int64(*seconds), at.Child("progressDeadlineSeconds"))
		f.Invalid(*seconds <= spec.MinReadySeconds, at.Child("progressDeadlineSeconds"), *seconds, "must be greater than minReadySeconds")
	}
	f.Add(kind.TemplateSelector(spec.Selector, spec.Template.Labels, at))
	f.Add(podspec.ValidateTemplate(&spec.Template, at.Child("template"), corev1.RestartPolicyAlways))
	checkNoDeadline(&f, &spec.Template, at)
	strategy := at.Child("strategy")
	switch rolling := spec.Strategy.RollingUpdate; spec.Strategy.Type {
	case appsv1.RecreateDeploymentStrategyType:
		f.Forbid(rolling != nil, strategy.Child("rollingUpdate"), "may not be specified when strategy `type` is 'Recreate'")
	case appsv1.RollingUpdateDeploymentStrategyType:
		if rolling != nil {
			checkRollingDeployment(&f, rolling, strategy.Child("rollingUpdate"))
		}
	default:
		kind.Known(&f, spec.Strategy.Type, strategy, appsv1.RecreateDeploymentStrategyType, appsv1.RollingUpdateDeploymentStrategyType)
	}
	if old != nil {
		f.Add(kind.Frozen(spec.Selector, old.Spec.Selector, at.Child("selector")))
	}
	return f.List
}

// checkRollback checks the revision that an old client wants back. A value that is no number can come in a patch alone, see
// readDeployment.
func checkRollback(f *kind.Findings, d *appsv1.Deployment) {
	revision := d.Annotations[appsv1.DeprecatedRollbackTo]
	if revision == "" {
		return
	}
	number, err := strconv.ParseInt(revision, 10, 64)
	if err != nil {
		f.List = append(f.List, field.InternalError(kind.AnnotationsPath().Key(appsv1.DeprecatedRollbackTo), err))
	}
	f.NotNegative(number, kind.SpecPath("rollback", "version"))
}

// checkNoDeadline refuses a deadline for Pods that are to run for ever.
func checkNoDeadline(f *kind.Findings, template *corev1.PodTemplateSpec, at *field.Path) {
	f.Forbid(template.Spec.ActiveDeadlineSeconds != nil, at.Child("template", "spec", "activeDeadlineSeconds"), "activeDeadlineSeconds is not supported here")
}

func checkRollingDeployment(f *kind.Findings, rolling *appsv1.RollingUpdateDeployment, at *field.Path) {
	f.Add(kind.CountOrPercent(rolling.MaxUnavailable, at.Child("maxUnavailable")))
	f.Add(kind.CountOrPercent(rolling.MaxSurge, at.Child("maxSurge")))
	f.Invalid(kind.Amount(rolling.MaxUnavailable) == 0 && kind.Amount(rolling.MaxSurge) == 0, at.Child("maxUnavailable"), rolling.MaxUnavailable,
		"may not be 0 when `maxSurge` is 0")
	f.NotAll(rolling.MaxUnavailable, at.Child("maxUnavailable"))
}

func validateReplicaSet(rs, old *appsv1.ReplicaSet) field.ErrorList {
	var f kind.Findings
	at := kind.SpecPath()
	f.Add(kind.NotNegative(rs.Spec.Replicas, at.Child("replicas")))
	f.NotNegative(int64(rs.Spec.MinReadySeconds), at.Child("minReadySeconds"))
	f.Add(kind.TemplateSelector(rs.Spec.Selector, rs.Spec.Template.Labels, at))
	f.Add(podspec.ValidateTemplate(&rs.Spec.Template, at.Child("template"), corev1.RestartPolicyAlways))
	checkNoDeadline(&f, &rs.Spec.Template, at)
	if old != nil {
		f.Add(kind.Frozen(rs.Spec.Selector, old.Spec.Selector, at.Child("selector")))
	}
	return f.List
}

func validateDaemonSet(ds, old *appsv1.DaemonSet) field.ErrorList {
	var f kind.Findings
	spec, at := &ds.Spec, kind.SpecPath()
	f.Add(daemonSelector(spec, at))
	f.Add(podspec.ValidateTemplate(&spec.Template, at.Child("template"), corev1.RestartPolicyAlways))
	checkNoDeadline(&f, &spec.Template, at)
	f.NotNegative(int64(spec.MinReadySeconds), at.Child("minReadySeconds"))
	f.Add(kind.NotNegative(spec.RevisionHistoryLimit, at.Child("revisionHistoryLimit")))
	strategy := at.Child("updateStrategy")
	kind.Known(&f, spec.UpdateStrategy.Type, strategy, appsv1.OnDeleteDaemonSetStrategyType, appsv1.RollingUpdateDaemonSetStrategyType)
	if rolling := spec.UpdateStrategy.RollingUpdate; rolling != nil && spec.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		checkRollingDaemon(&f, rolling, strategy.Child("rollingUpdate"))
	}
	if old != nil {
		f.Add(kind.Frozen(spec.Selector, old.Spec.Selector, at.Child("selector")))
	}
	return f.List
}

func checkRollingDaemon(f *kind.Findings, rolling *appsv1.RollingUpdateDaemonSet, at *field.Path) {
	for _, is := range []struct {
		name  string
		value *intstr.IntOrString
	}{{"maxUnavailable", rolling.MaxUnavailable}, {"maxSurge", rolling.MaxSurge}} {
		f.Add(kind.CountOrPercent(is.value, at.Child(is.name)))
		f.NotAll(is.value, at.Child(is.name))
	}
	f.Invalid(kind.Amount(rolling.MaxUnavailable) != 0 && kind.Amount(rolling.MaxSurge) != 0, at.Child("maxSurge"), rolling.MaxSurge,
		"may not be set when maxUnavailable is non-zero")
	f.Need(kind.Amount(rolling.MaxUnavailable) != 0 || kind.Amount(rolling.MaxSurge) != 0, at.Child("maxUnavailable"))
}

// daemonSelector is TemplateSelector, but that a selector that is missing is reported for the labels alone.
func daemonSelector(spec *appsv1.DaemonSetSpec, at *field.Path) field.ErrorList {
	errs := kind.TemplateSelector(spec.Selector, spec.Template.Labels, at)
	if spec.Selector == nil {
		return errs[1:]
	}
	if _, err := metav1.LabelSelectorAsSelector(spec.Selector); err != nil {
		return kind.LabelSelector(spec.Selector, at.Child("selector"))
	}
	return errs
}

func validateControllerRevision(revision, old *appsv1.ControllerRevision) field.ErrorList {
	var f kind.Findings
	data := field.NewPath("data")
	f.NotNegative(revision.Revision, field.NewPath("revision"))
	if old != nil {
		f.Add(kind.Frozen(revision.Data, old.Data, data))
		return f.List
	}
	raw := revision.Data.Raw
	if raw == nil && revision.Data.Object != nil {
		raw, _ = json.Marshal(revision.Data.Object)
	}
	var content any
	if raw != nil {
		if err := json.Unmarshal(raw, &content); err != nil {
			f.Invalid(true, data, "<value omitted>", fmt.Sprintf("error parsing data: %v", err))
			return f.List
		}
	}
	_, isObject := content.(map[string]any)
	f.Need(isObject, data)
	return f.List
}
