// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/podspec"
)

func NodeKinds() []*kind.Kind {
	return []*kind.Kind{{
		GVK: nodev1.SchemeGroupVersion.WithKind("RuntimeClass"), Resource: "runtimeclasses", Cluster: true,
		Rules: kind.Rules{NeedVersion: true, AnyFinalizers: true, PutCreates: true},
		Hooks: kind.Hooks{Validate: kind.TypedCheck(validateRuntimeClass)},
		Warn:  kind.WarnHooks{Object: kind.TypedWarn(warnRuntimeClass)},
		Table: kind.Show("Handler,Age", runtimeClassCells),
	}}
}

func runtimeClassCells(class *nodev1.RuntimeClass) []any {
	return []any{class.Handler, kind.AgeOf(class)}
}

// The rules of kinds that describe nodes, their network and their storage.

func validateRuntimeClass(class, old *nodev1.RuntimeClass) field.ErrorList {
	path := field.NewPath("handler")
	errs := kind.Required(class.Handler, path)
	if class.Handler != "" {
		errs = append(errs, kind.InvalidIf(validation.IsDNS1123Label(class.Handler), class.Handler, path)...)
	}
	if class.Overhead != nil {
		at := field.NewPath("overhead", "limits")
		for _, name := range slices.Sorted(maps.Keys(class.Overhead.PodFixed)) {
			f := kind.Findings{}
			podspec.ContainerResource(&f, name, at.Key(string(name)))
			podspec.CheckResourceValue(&f, name, class.Overhead.PodFixed[name], at.Key(string(name)))
			errs = append(errs, f.List...)
		}
	}
	if class.Scheduling != nil {
		at := field.NewPath("scheduling")
		errs = append(errs, metavalidation.ValidateLabels(class.Scheduling.NodeSelector, at.Child("nodeSelector"))...)
		errs = append(errs, tolerationSet(class.Scheduling.Tolerations, at.Child("tolerations"))...)
		f := kind.Findings{}
		podspec.CheckTolerations(&f, class.Scheduling.Tolerations, at.Child("tolerations"))
		errs = append(errs, f.List...)
	}
	if old != nil {
		errs = append(errs, kind.Frozen(class.Handler, old.Handler, path)...)
	}
	return errs
}

// tolerationSet refuses a toleration that is there twice.
func tolerationSet(tolerations []corev1.Toleration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[corev1.Toleration]bool{}
	for i, t := range tolerations {
		key := corev1.Toleration{Key: t.Key, Operator: t.Operator, Value: t.Value, Effect: t.Effect}
		if seen[key] {
			errs = append(errs, field.Duplicate(path.Index(i), t))
		}
		seen[key] = true
	}
	return errs
}

func warnRuntimeClass(w *kind.Warnings, class, _ *nodev1.RuntimeClass) {
	if class.Scheduling != nil {
		for key := range class.Scheduling.NodeSelector {
			w.NodeLabel(key, field.NewPath("scheduling", "nodeSelector"))
		}
	}
}
