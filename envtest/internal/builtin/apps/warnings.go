// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package apps

import (
	appsv1 "k8s.io/api/apps/v1"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/podspec"
)

func warnDeployment(w *kind.Warnings, o, _ *appsv1.Deployment) {
	w.Label(o.Name, kind.InPodNames)
	podspec.WarnTemplate(w, &o.Spec.Template, kind.SpecPath("template"))
}

func warnReplicaSet(w *kind.Warnings, o, _ *appsv1.ReplicaSet) {
	w.Label(o.Name, kind.InPodNames)
	podspec.WarnTemplate(w, &o.Spec.Template, kind.SpecPath("template"))
}

// warnDaemonSet looks at the template when it was counted, which the generation of the whole does not tell.
func warnDaemonSet(w *kind.Warnings, o, old *appsv1.DaemonSet) {
	const count = appsv1.DeprecatedTemplateGeneration
	w.Changed = w.Created || o.Annotations[count] != old.Annotations[count]
	podspec.WarnTemplate(w, &o.Spec.Template, kind.SpecPath("template"))
}

func warnStatefulSet(w *kind.Warnings, o, _ *appsv1.StatefulSet) {
	podspec.WarnTemplate(w, &o.Spec.Template, kind.SpecPath("template"))
	for i := range o.Spec.VolumeClaimTemplates {
		at := kind.SpecPath("volumeClaimTemplates").Index(i)
		if !w.Created {
			at = at.Child("Spec") // as a kube-apiserver names it
		}
		podspec.WarnClaim(w, &o.Spec.VolumeClaimTemplates[i].Spec, at)
	}
	if limit := o.Spec.RevisionHistoryLimit; limit != nil && *limit < 0 {
		w.Add(kind.SpecPath("revisionHistoryLimit"), "a negative value retains all historical revisions; a value >= 0 is recommended")
	}
}
