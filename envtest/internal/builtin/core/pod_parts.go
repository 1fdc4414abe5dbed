// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/podspec"
)

// podPartStrategy updates one part of a Pod's spec and keeps the rest of the Pod: spec, status and metadata.
type podPartStrategy struct {
	kind.Strategy
	// take copies the part from a request into a Pod's spec, and says what is wrong with it.
	take func(from, to *corev1.PodSpec) field.ErrorList
	// Check says what is wrong with the Pod that has it.
	check func(pod, old *corev1.Pod) field.ErrorList
}

// ephemeralStrategy adds ephemeral containers.
func ephemeralStrategy(s kind.Strategy) podPartStrategy {
	return podPartStrategy{s, takeEphemeralContainers, func(pod, old *corev1.Pod) field.ErrorList {
		if _, ok := old.Annotations[corev1.MirrorPodAnnotationKey]; ok {
			return field.ErrorList{field.Forbidden(field.NewPath(""), "static pods do not support ephemeral containers")}
		}
		return podspec.ValidatePodSpec(&pod.Spec, true, kind.SpecPath())
	}}
}

// resizeStrategy changes the resources of containers.
func resizeStrategy(s kind.Strategy) podPartStrategy {
	return podPartStrategy{s, takeResources, validateResize}
}

func (s podPartStrategy) AllowCreateOnUpdate(context.Context) bool { return false }

// PrepareForUpdate leaves a request that cannot be taken as it is; ValidateUpdate then refuses it.
func (s podPartStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	pod, was := kind.MustBe[*corev1.Pod](obj), kind.MustBe[*corev1.Pod](old)
	spec := was.Spec.DeepCopy()
	if len(s.take(&pod.Spec, spec)) > 0 {
		return
	}
	pod.Spec = *spec
	pod.Status = was.Status
	metav1.ResetObjectMetaForStatus(&pod.ObjectMeta, &was.ObjectMeta)
	if !apiequality.Semantic.DeepEqual(pod.Spec, was.Spec) {
		pod.Generation = was.Generation + 1
	}
}

func (s podPartStrategy) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	pod, was := kind.MustBe[*corev1.Pod](obj), kind.MustBe[*corev1.Pod](old)
	if errs := s.take(&pod.Spec, was.Spec.DeepCopy()); len(errs) > 0 {
		return errs
	}
	return s.check(pod, was)
}

func (s podPartStrategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

// GetResetFields names the status; the parts of the spec that stay differ from Pod to Pod.
func (s podPartStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return kind.ResetFields(s.Kind, fieldpath.MakePathOrDie("status"))
}

// takeEphemeralContainers adds ephemeral containers. Existing ones can be neither changed nor removed; their order does not
// matter, because a patch may change it.
func takeEphemeralContainers(from, to *corev1.PodSpec) field.ErrorList {
	path := field.NewPath("spec", "ephemeralContainers")
	var errs field.ErrorList
	for _, was := range to.EphemeralContainers {
		i := slices.IndexFunc(from.EphemeralContainers, func(c corev1.EphemeralContainer) bool { return c.Name == was.Name })
		switch {
		case i < 0:
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("existing ephemeral containers %q may not be removed", was.Name)))
		case !apiequality.Semantic.DeepEqual(from.EphemeralContainers[i], was):
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("existing ephemeral containers %q may not be changed\n%s",
				was.Name, diff.Diff(was, from.EphemeralContainers[i]))))
		}
	}
	if len(errs) == 0 {
		to.EphemeralContainers = from.EphemeralContainers
	}
	return errs
}

// takeResources takes the resources of the containers, which must be the same ones in the same order.
func takeResources(from, to *corev1.PodSpec) field.ErrorList {
	errs := takeContainerResources(from.Containers, to.Containers, kind.SpecPath("containers"), "containers")
	errs = append(errs, takeContainerResources(from.InitContainers, to.InitContainers, kind.SpecPath("initContainers"), "initContainers")...)
	to.Resources = from.Resources
	return errs
}

func takeContainerResources(from, to []corev1.Container, path *field.Path, what string) field.ErrorList {
	if len(from) != len(to) {
		return field.ErrorList{field.Forbidden(path, what+" may not be added or removed on resize")}
	}
	var f kind.Findings
	for i := range from {
		f.Forbid(from[i].Name != to[i].Name, path.Index(i).Child("name"), what+" may not be renamed or reordered on resize")
		to[i].Resources = from[i].Resources
		to[i].ResizePolicy = from[i].ResizePolicy
	}
	return f.List
}
