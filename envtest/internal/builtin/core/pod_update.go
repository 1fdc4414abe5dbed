// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/podspec"
)

// The rules are those of kube-apiserver's pkg/apis/core/validation/validation.go.

// validatePodUpdate allows new images, a shorter deadline, more tolerations, fewer scheduling gates, and while there are some
// a narrower choice of nodes.
func validatePodUpdate(spec, old *corev1.PodSpec, path *field.Path) field.ErrorList {
	same := spec.DeepCopy()
	for name, took := range map[string]bool{
		"containers": takeImages(old.Containers, same.Containers), "initContainers": takeImages(old.InitContainers, same.InitContainers),
	} {
		if !took {
			return field.ErrorList{field.Forbidden(path.Child(name), "pod updates may not add or remove containers")}
		}
	}
	errs := shorterDeadline(spec.ActiveDeadlineSeconds, old.ActiveDeadlineSeconds, path.Child("activeDeadlineSeconds"))
	for _, was := range old.Tolerations {
		if !slices.ContainsFunc(spec.Tolerations, func(t corev1.Toleration) bool { return sameToleration(&t, &was) }) {
			errs = append(errs, field.Forbidden(path.Child("tolerations"), "existing toleration can not be modified except its tolerationSeconds"))
		}
	}
	for i, gate := range spec.SchedulingGates {
		if !slices.Contains(old.SchedulingGates, gate) {
			errs = append(errs, field.Forbidden(path.Child("schedulingGates").Index(i).Child("name"),
				fmt.Sprintf("only deletion is allowed, but found new scheduling gate '%s'", gate.Name)))
		}
	}
	same.ActiveDeadlineSeconds, same.Tolerations, same.SchedulingGates = old.ActiveDeadlineSeconds, old.Tolerations, old.SchedulingGates
	if len(old.SchedulingGates) > 0 {
		errs = append(errs, narrowerNodes(same, old, path)...)
	}
	if !apiequality.Semantic.DeepEqual(same, old) {
		errs = append(errs, field.Forbidden(path, "pod updates may not change fields other than `spec.containers[*].image`,"+
			"`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"+
			"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n"+diff.Diff(old, same)))
	}
	return errs
}

// takeImages copies the images of from, container by container. It reports false if the numbers differ.
func takeImages(from, to []corev1.Container) bool {
	if len(from) != len(to) {
		return false
	}
	for i := range from {
		to[i].Image = from[i].Image
	}
	return true
}

func shorterDeadline(seconds, old *int64, path *field.Path) field.ErrorList {
	switch {
	case old == nil:
	case seconds == nil:
		return field.ErrorList{field.Invalid(path, nil, "must not update from a positive integer to nil value")}
	case *seconds > *old:
		return field.ErrorList{field.Invalid(path, *seconds, "must be less than or equal to previous value")}
	}
	return nil
}

// sameToleration compares all but the time.
func sameToleration(a, b *corev1.Toleration) bool {
	return a.Key == b.Key && a.Operator == b.Operator && a.Value == b.Value && a.Effect == b.Effect
}

// narrowerNodes checks that the nodes of a gated Pod were chosen among those of old, and gives spec the choice of old.
func narrowerNodes(spec, old *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for key, value := range old.NodeSelector {
		if now, ok := spec.NodeSelector[key]; !ok || now != value {
			errs = append(errs, field.Invalid(path.Child("nodeSelector"), spec.NodeSelector, "only additions to spec.nodeSelector are allowed (no mutations or deletions)"))
			break
		}
	}
	spec.NodeSelector = old.NodeSelector
	now, was := podspec.NodeAffinity(spec.Affinity), podspec.NodeAffinity(old.Affinity)
	if apiequality.Semantic.DeepEqual(now, was) {
		return errs
	}
	errs = append(errs, narrowerTerms(podspec.RequiredTerms(now), podspec.RequiredTerms(was),
		path.Child("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"))...)
	switch {
	case spec.Affinity == nil:
		spec.Affinity = &corev1.Affinity{NodeAffinity: was}
	case old.Affinity == nil && spec.Affinity.PodAffinity == nil && spec.Affinity.PodAntiAffinity == nil:
		spec.Affinity = nil
	default:
		spec.Affinity.NodeAffinity = was
	}
	return errs
}

// narrowerTerms allows any terms where there were none, and further requirements in the terms that there were.
func narrowerTerms(terms, old []corev1.NodeSelectorTerm, path *field.Path) field.ErrorList {
	if len(old) > 0 && len(terms) != len(old) {
		return field.ErrorList{field.Invalid(path, terms, "no additions/deletions to non-empty NodeSelectorTerms list are allowed")}
	}
	var errs field.ErrorList
	for i, was := range old {
		empty := len(was.MatchExpressions)+len(was.MatchFields) == 0 // selects no node, and must go on doing so
		changed := empty && len(terms[i].MatchExpressions)+len(terms[i].MatchFields) > 0
		if changed || !begins(terms[i].MatchExpressions, was.MatchExpressions) || !begins(terms[i].MatchFields, was.MatchFields) {
			errs = append(errs, field.Invalid(path.Index(i), terms[i], "only additions are allowed (no mutations or deletions)"))
		}
	}
	return errs
}

// begins reports whether list begins with the items of first.
func begins(list, first []corev1.NodeSelectorRequirement) bool {
	return len(list) >= len(first) && apiequality.Semantic.DeepEqual(list[:len(first)], first)
}

// onlyForPods checks what Pods may not have and templates may.
func onlyForPods(pod *corev1.Pod, at *field.Path) field.ErrorList {
	f := podspec.PodCheck{Spec: &pod.Spec}
	for i := range pod.Spec.Containers {
		f.Image(pod.Spec.Containers[i].Image, at.Child("containers").Index(i))
	}
	for i := range pod.Spec.InitContainers {
		f.Image(pod.Spec.InitContainers[i].Image, at.Child("initContainers").Index(i))
	}
	for i := range pod.Spec.Volumes {
		projected := pod.Spec.Volumes[i].Projected
		if projected == nil || pod.Spec.ServiceAccountName != "" {
			continue
		}
		for j := range projected.Sources {
			f.Forbid(projected.Sources[j].ServiceAccountToken != nil,
				at.Child("volumes").Index(i).Child("projected", "sources").Index(j).Child("serviceAccountToken"),
				"must not be specified when serviceAccountName is not set")
		}
	}
	podspec.CheckPodAnnotations(&f.Findings, pod.Annotations, &pod.Spec, kind.AnnotationsPath())
	_, mirrors := pod.Annotations[corev1.MirrorPodAnnotationKey]
	f.Forbid(mirrors && len(pod.Spec.ResourceClaims) > 0, field.NewPath(""), "static pods do not support resource claims")
	return f.List
}
