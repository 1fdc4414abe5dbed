// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// Annotations that mean something. The rules are those of kube-apiserver's pkg/apis/core/validation/validation.go.

const (
	AppArmorPrefix = corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix
	seccompPrefix  = corev1.SeccompContainerAnnotationKeyPrefix
	localPrefix    = "localhost/"
	unconfined     = "unconfined"
	runtimeDefault = "runtime/default"
	dockerDefault  = "docker/default"
	agreeOnType    = " type in annotation and field must match"
	agreeOnProfile = " profile in annotation and field must match"
)

// CheckPodAnnotations checks the annotations of a Pod, or of a template of Pods.
func CheckPodAnnotations(f *kind.Findings, annotations map[string]string, spec *corev1.PodSpec, at *field.Path) {
	if value, ok := annotations[corev1.MirrorPodAnnotationKey]; ok {
		f.Invalid(spec.NodeName == "", at.Key(corev1.MirrorPodAnnotationKey), value, "must set spec.nodeName if mirror pod annotation is set")
	}
	if list, ok := kind.AnnotationJSON[[]corev1.Toleration](f, annotations, corev1.TolerationsAnnotationKey, at, at); ok {
		CheckTolerations(f, list, at.Child(corev1.TolerationsAnnotationKey))
	}
	if cost, ok := annotations[corev1.PodDeletionCost]; ok {
		f.Invalid(!isDeletionCost(cost), at.Key(corev1.PodDeletionCost), cost, "must be a 32bit integer")
	}
	containers := sets.New[string]()
	EveryContainer(spec, nil, func(c *corev1.Container, _ *field.Path) { containers.Insert(c.Name) })
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		value := annotations[key]
		if key == corev1.SeccompPodAnnotationKey || strings.HasPrefix(key, seccompPrefix) {
			checkSeccompName(f, value, at.Child(key))
		}
		if name, ok := strings.CutPrefix(key, AppArmorPrefix); ok {
			f.Invalid(!containers.Has(name), at.Key(key), name, "container not found")
			known := value == "" || value == runtimeDefault || value == unconfined || strings.HasPrefix(value, localPrefix)
			f.Invalid(!known, at.Key(key), value, "invalid AppArmor profile name: "+strconv.Quote(value))
		}
	}
}

// isDeletionCost reports whether a number is written as the controllers of Pods read it.
func isDeletionCost(cost string) bool {
	if strings.HasPrefix(cost, "+") || len(cost) > 1 && cost[0] == '0' {
		return false
	}
	_, err := strconv.ParseInt(cost, 10, 32)
	return err == nil
}

// checkSeccompName checks the name of a profile.
func checkSeccompName(f *kind.Findings, name string, at *field.Path) {
	switch profile, local := strings.CutPrefix(name, localPrefix); {
	case local:
		checkDescending(f, profile, at)
	default:
		f.Invalid(name != runtimeDefault && name != dockerDefault && name != unconfined, at, name, "must be a valid seccomp profile")
	}
}

// CheckProfiles checks that the annotations and the fields of a new Pod, or of a template, name the same profiles.
func CheckProfiles(f *kind.Findings, annotations map[string]string, spec *corev1.PodSpec, at *field.Path) {
	pod := spec.SecurityContext
	if pod == nil {
		pod = &corev1.PodSecurityContext{}
	}
	if name, ok := annotations[corev1.SeccompPodAnnotationKey]; ok {
		checkSeccompAgrees(f, name, pod.SeccompProfile, at.Child("securityContext"))
	}
	EveryContainer(spec, at, func(c *corev1.Container, at *field.Path) {
		at = at.Child("securityContext")
		own := c.SecurityContext
		if own == nil {
			own = &corev1.SecurityContext{}
		}
		if name, ok := annotations[seccompPrefix+c.Name]; ok {
			checkSeccompAgrees(f, name, own.SeccompProfile, at)
		}
		name, ok := annotations[AppArmorPrefix+c.Name]
		profile := own.AppArmorProfile
		if profile == nil {
			profile = pod.AppArmorProfile
		}
		if ok && profile != nil && !OnWindows(spec) {
			checkAgrees(f, "apparmor", name, string(profile.Type), profile.LocalhostProfile, at.Child("appArmorProfile"))
		}
	})
}

func checkSeccompAgrees(f *kind.Findings, name string, profile *corev1.SeccompProfile, at *field.Path) {
	if profile == nil {
		return
	}
	if name == dockerDefault { // an older name
		name = runtimeDefault
	}
	checkAgrees(f, "seccomp", name, string(profile.Type), profile.LocalhostProfile, at.Child("seccompProfile"))
}

// checkAgrees checks that an annotation and a field name the same profile. The types of fields have the same names for both kinds
// of profiles.
func checkAgrees(f *kind.Findings, what, name, kind string, local *string, at *field.Path) {
	profile, isLocal := strings.CutPrefix(name, localPrefix)
	switch kind {
	case string(corev1.SeccompProfileTypeUnconfined):
		f.Forbid(name != unconfined, at.Child("type"), what+agreeOnType)
	case string(corev1.SeccompProfileTypeRuntimeDefault):
		f.Forbid(name != runtimeDefault, at.Child("type"), what+agreeOnType)
	case string(corev1.SeccompProfileTypeLocalhost):
		f.Forbid(!isLocal, at.Child("type"), what+agreeOnType)
		f.Forbid(isLocal && (local == nil || *local != profile), at.Child("localhostProfile"), what+agreeOnProfile)
	}
}

func OnWindows(spec *corev1.PodSpec) bool { return spec.OS != nil && spec.OS.Name == corev1.Windows }

// CheckKeptAnnotations refuses to add, change or remove what a kubelet has read once.
func CheckKeptAnnotations(f *kind.Findings, now, was map[string]string) {
	all := sets.KeySet(now).Union(sets.KeySet(was))
	for _, key := range sets.List(all) {
		value, has := now[key]
		before, had := was[key]
		if has == had && value == before {
			continue
		}
		verb := "remove or update"
		if !had {
			verb = "add"
		}
		f.Forbid(strings.HasPrefix(key, AppArmorPrefix), kind.AnnotationsPath().Key(key), "may not "+verb+" AppArmor annotations")
		f.Forbid(key == corev1.MirrorPodAnnotationKey, kind.AnnotationsPath().Key(key), "may not "+verb+" mirror pod annotation")
	}
}
