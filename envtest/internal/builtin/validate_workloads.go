// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The rules are those of kube-apiserver's pkg/apis/apps/validation/validation.go.

func validateDeployment(d, old *appsv1.Deployment) field.ErrorList {
	var f faults
	spec, at := &d.Spec, specPath()
	f.add(notNegative(spec.Replicas, at.Child("replicas")))
	f.rollback(d)
	f.add(notNegative(spec.RevisionHistoryLimit, at.Child("revisionHistoryLimit")))
	f.notNegative(int64(spec.MinReadySeconds), at.Child("minReadySeconds"))
	if seconds := spec.ProgressDeadlineSeconds; seconds != nil {
		f.notNegative(int64(*seconds), at.Child("progressDeadlineSeconds"))
		f.invalid(*seconds <= spec.MinReadySeconds, at.Child("progressDeadlineSeconds"), *seconds, "must be greater than minReadySeconds")
	}
	f.add(templateSelector(spec.Selector, spec.Template.Labels, at))
	f.add(validateTemplate(&spec.Template, at.Child("template"), corev1.RestartPolicyAlways))
	f.noDeadline(&spec.Template, at)
	strategy := at.Child("strategy")
	switch rolling := spec.Strategy.RollingUpdate; spec.Strategy.Type {
	case appsv1.RecreateDeploymentStrategyType:
		f.forbid(rolling != nil, strategy.Child("rollingUpdate"), "may not be specified when strategy `type` is 'Recreate'")
	case appsv1.RollingUpdateDeploymentStrategyType:
		if rolling != nil {
			f.rollingDeployment(rolling, strategy.Child("rollingUpdate"))
		}
	default:
		known(&f, spec.Strategy.Type, strategy, appsv1.RecreateDeploymentStrategyType, appsv1.RollingUpdateDeploymentStrategyType)
	}
	if old != nil {
		f.add(frozen(spec.Selector, old.Spec.Selector, at.Child("selector")))
	}
	return f.list
}

// rollback checks the revision that an old client wants back. One that is no number can come in a patch alone, see requestCodecs.
func (f *faults) rollback(d *appsv1.Deployment) {
	revision := d.Annotations[appsv1.DeprecatedRollbackTo]
	if revision == "" {
		return
	}
	number, err := strconv.ParseInt(revision, 10, 64)
	if err != nil {
		f.list = append(f.list, field.InternalError(annotationsPath().Key(appsv1.DeprecatedRollbackTo), err))
	}
	f.notNegative(number, specPath("rollback", "version"))
}

// noDeadline refuses a deadline for Pods that are to run for ever.
func (f *faults) noDeadline(template *corev1.PodTemplateSpec, at *field.Path) {
	f.forbid(template.Spec.ActiveDeadlineSeconds != nil, at.Child("template", "spec", "activeDeadlineSeconds"), "activeDeadlineSeconds is not supported here")
}

func (f *faults) rollingDeployment(rolling *appsv1.RollingUpdateDeployment, at *field.Path) {
	f.add(countOrPercent(rolling.MaxUnavailable, at.Child("maxUnavailable")))
	f.add(countOrPercent(rolling.MaxSurge, at.Child("maxSurge")))
	f.invalid(amount(rolling.MaxUnavailable) == 0 && amount(rolling.MaxSurge) == 0, at.Child("maxUnavailable"), rolling.MaxUnavailable,
		"may not be 0 when `maxSurge` is 0")
	f.notAll(rolling.MaxUnavailable, at.Child("maxUnavailable"))
}

// amount is the number of a count or of a percentage.
func amount(value *intstr.IntOrString) int {
	if value == nil {
		return 0
	}
	if share, ok := percent(value); ok {
		return share
	}
	return value.IntValue()
}

func percent(value *intstr.IntOrString) (int, bool) {
	if value == nil || value.Type != intstr.String || len(validation.IsValidPercent(value.StrVal)) > 0 {
		return 0, false
	}
	share, err := strconv.Atoi(strings.TrimSuffix(value.StrVal, "%"))
	return share, err == nil
}

// notAll refuses a percentage above 100.
func (f *faults) notAll(value *intstr.IntOrString, at *field.Path) {
	share, ok := percent(value)
	f.invalid(ok && share > 100, at, value, "must not be greater than 100%")
}

func validateReplicaSet(rs, old *appsv1.ReplicaSet) field.ErrorList {
	var f faults
	at := specPath()
	f.add(notNegative(rs.Spec.Replicas, at.Child("replicas")))
	f.notNegative(int64(rs.Spec.MinReadySeconds), at.Child("minReadySeconds"))
	f.add(templateSelector(rs.Spec.Selector, rs.Spec.Template.Labels, at))
	f.add(validateTemplate(&rs.Spec.Template, at.Child("template"), corev1.RestartPolicyAlways))
	f.noDeadline(&rs.Spec.Template, at)
	if old != nil {
		f.add(frozen(rs.Spec.Selector, old.Spec.Selector, at.Child("selector")))
	}
	return f.list
}

func validateDaemonSet(ds, old *appsv1.DaemonSet) field.ErrorList {
	var f faults
	spec, at := &ds.Spec, specPath()
	f.add(daemonSelector(spec, at))
	f.add(validateTemplate(&spec.Template, at.Child("template"), corev1.RestartPolicyAlways))
	f.noDeadline(&spec.Template, at)
	f.notNegative(int64(spec.MinReadySeconds), at.Child("minReadySeconds"))
	f.add(notNegative(spec.RevisionHistoryLimit, at.Child("revisionHistoryLimit")))
	strategy := at.Child("updateStrategy")
	known(&f, spec.UpdateStrategy.Type, strategy, appsv1.OnDeleteDaemonSetStrategyType, appsv1.RollingUpdateDaemonSetStrategyType)
	if rolling := spec.UpdateStrategy.RollingUpdate; rolling != nil && spec.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		f.rollingDaemon(rolling, strategy.Child("rollingUpdate"))
	}
	if old != nil {
		f.add(frozen(spec.Selector, old.Spec.Selector, at.Child("selector")))
	}
	return f.list
}

func (f *faults) rollingDaemon(rolling *appsv1.RollingUpdateDaemonSet, at *field.Path) {
	for _, is := range []struct {
		name  string
		value *intstr.IntOrString
	}{{"maxUnavailable", rolling.MaxUnavailable}, {"maxSurge", rolling.MaxSurge}} {
		f.add(countOrPercent(is.value, at.Child(is.name)))
		f.notAll(is.value, at.Child(is.name))
	}
	f.invalid(amount(rolling.MaxUnavailable) != 0 && amount(rolling.MaxSurge) != 0, at.Child("maxSurge"), rolling.MaxSurge,
		"may not be set when maxUnavailable is non-zero")
	f.need(amount(rolling.MaxUnavailable) != 0 || amount(rolling.MaxSurge) != 0, at.Child("maxUnavailable"))
}

// daemonSelector is templateSelector, but that a selector that is missing is reported for the labels alone.
func daemonSelector(spec *appsv1.DaemonSetSpec, at *field.Path) field.ErrorList {
	errs := templateSelector(spec.Selector, spec.Template.Labels, at)
	if spec.Selector == nil {
		return errs[1:]
	}
	if _, err := metav1.LabelSelectorAsSelector(spec.Selector); err != nil {
		return labelSelector(spec.Selector, at.Child("selector"))
	}
	return errs
}

func validateControllerRevision(revision, old *appsv1.ControllerRevision) field.ErrorList {
	var f faults
	data := field.NewPath("data")
	f.notNegative(revision.Revision, field.NewPath("revision"))
	if old != nil {
		f.add(frozen(revision.Data, old.Data, data))
		return f.list
	}
	raw := revision.Data.Raw
	if raw == nil && revision.Data.Object != nil {
		raw, _ = json.Marshal(revision.Data.Object)
	}
	var content any
	if raw != nil {
		if err := json.Unmarshal(raw, &content); err != nil {
			f.invalid(true, data, "<value omitted>", fmt.Sprintf("error parsing data: %v", err))
			return f.list
		}
	}
	_, isObject := content.(map[string]any)
	f.need(isObject, data)
	return f.list
}

// counted is a check of a status: its numbers are not negative, and none of some is above the number of all.
func counted(all string, parts ...string) func(obj, old runtime.Object) field.ErrorList {
	return func(obj, old runtime.Object) field.ErrorList {
		var f faults
		status, at := statusOf(obj), field.NewPath("status")
		numbers := map[string]int64{}
		for i := range status.NumField() {
			name, _, _ := strings.Cut(status.Type().Field(i).Tag.Get("json"), ",")
			value := reflect.Indirect(status.Field(i))
			if value.IsValid() && value.CanInt() {
				numbers[name] = value.Int()
				f.notNegative(value.Int(), at.Child(name))
			}
		}
		for _, part := range parts {
			f.invalid(numbers[part] > numbers[all], at.Child(part), numbers[part], "cannot be greater than status."+all)
		}
		if all != "" {
			f.invalid(numbers["availableReplicas"] > numbers["readyReplicas"], at.Child("availableReplicas"), numbers["availableReplicas"],
				"cannot be greater than readyReplicas")
		}
		f.notDecremented(status, statusOf(old), at.Child("collisionCount"))
		return f.list
	}
}

// notDecremented refuses to count collisions backwards, in a status that counts them.
func (f *faults) notDecremented(status, old reflect.Value, at *field.Path) {
	count := func(status reflect.Value) *int32 {
		count := status.FieldByName("CollisionCount")
		if !count.IsValid() {
			return nil
		}
		return count.Interface().(*int32)
	}
	now, was := count(status), count(old)
	f.invalid(was != nil && (now == nil || *now < *was), at, now, "cannot be decremented")
}
