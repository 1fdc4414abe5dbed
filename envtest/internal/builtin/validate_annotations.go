// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Annotations that mean something. The rules are those of kube-apiserver's pkg/apis/core/validation/validation.go.

//lint:ignore SA1019 they are checked as long as a kube-apiserver checks them
const (
	appArmorPrefix = corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix
	seccompPrefix  = corev1.SeccompContainerAnnotationKeyPrefix
	localPrefix    = "localhost/"
	unconfined     = "unconfined"
	runtimeDefault = "runtime/default"
	dockerDefault  = "docker/default"
	agreeOnType    = " type in annotation and field must match"
	agreeOnProfile = " profile in annotation and field must match"
)

// annotationsPath is where the annotations of an object are.
func annotationsPath() *field.Path { return field.NewPath("metadata", "annotations") }

// podAnnotations checks those of a Pod, or of a template of Pods.
func (f *faults) podAnnotations(annotations map[string]string, spec *corev1.PodSpec, at *field.Path) {
	if value, ok := annotations[corev1.MirrorPodAnnotationKey]; ok {
		f.invalid(spec.NodeName == "", at.Key(corev1.MirrorPodAnnotationKey), value, "must set spec.nodeName if mirror pod annotation is set")
	}
	if list, ok := annotationJSON[[]corev1.Toleration](f, annotations, corev1.TolerationsAnnotationKey, at, at); ok {
		f.tolerations(list, at.Child(corev1.TolerationsAnnotationKey))
	}
	if cost, ok := annotations[corev1.PodDeletionCost]; ok {
		f.invalid(!isDeletionCost(cost), at.Key(corev1.PodDeletionCost), cost, "must be a 32bit integer")
	}
	containers := sets.New[string]()
	everyContainer(spec, nil, func(c *corev1.Container, _ *field.Path) { containers.Insert(c.Name) })
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		value := annotations[key]
		if key == corev1.SeccompPodAnnotationKey || strings.HasPrefix(key, seccompPrefix) {
			f.seccompName(value, at.Child(key))
		}
		if name, ok := strings.CutPrefix(key, appArmorPrefix); ok {
			f.invalid(!containers.Has(name), at.Key(key), name, "container not found")
			known := value == "" || value == runtimeDefault || value == unconfined || strings.HasPrefix(value, localPrefix)
			f.invalid(!known, at.Key(key), value, "invalid AppArmor profile name: "+strconv.Quote(value))
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

// seccompName checks the name of a profile.
func (f *faults) seccompName(name string, at *field.Path) {
	switch profile, local := strings.CutPrefix(name, localPrefix); {
	case local:
		f.descending(profile, at)
	default:
		f.invalid(name != runtimeDefault && name != dockerDefault && name != unconfined, at, name, "must be a valid seccomp profile")
	}
}

// annotationJSON reads what an annotation has in JSON, if there is something. What cannot be read is reported at unreadable.
func annotationJSON[T any](f *faults, annotations map[string]string, key string, at, unreadable *field.Path) (content T, ok bool) {
	text := annotations[key]
	if text == "" {
		return content, false
	}
	if err := json.Unmarshal([]byte(text), &content); err != nil {
		f.invalid(true, unreadable, key, err.Error())
		return content, false
	}
	return content, true
}

// profiles checks that the annotations and the fields of a new Pod, or of a template, name the same profiles.
func (f *faults) profiles(annotations map[string]string, spec *corev1.PodSpec, at *field.Path) {
	pod := spec.SecurityContext
	if pod == nil {
		pod = &corev1.PodSecurityContext{}
	}
	if name, ok := annotations[corev1.SeccompPodAnnotationKey]; ok {
		f.seccompAgrees(name, pod.SeccompProfile, at.Child("securityContext"))
	}
	everyContainer(spec, at, func(c *corev1.Container, at *field.Path) {
		at = at.Child("securityContext")
		own := c.SecurityContext
		if own == nil {
			own = &corev1.SecurityContext{}
		}
		if name, ok := annotations[seccompPrefix+c.Name]; ok {
			f.seccompAgrees(name, own.SeccompProfile, at)
		}
		name, ok := annotations[appArmorPrefix+c.Name]
		profile := own.AppArmorProfile
		if profile == nil {
			profile = pod.AppArmorProfile
		}
		if ok && profile != nil && !onWindows(spec) {
			f.agrees("apparmor", name, string(profile.Type), profile.LocalhostProfile, at.Child("appArmorProfile"))
		}
	})
}

func (f *faults) seccompAgrees(name string, profile *corev1.SeccompProfile, at *field.Path) {
	if profile == nil {
		return
	}
	if name == dockerDefault { // an older name
		name = runtimeDefault
	}
	f.agrees("seccomp", name, string(profile.Type), profile.LocalhostProfile, at.Child("seccompProfile"))
}

// agrees checks that the name of a profile in an annotation is the one of a field, whose types have the same names for both kinds of
// profiles.
func (f *faults) agrees(what, name, kind string, local *string, at *field.Path) {
	profile, isLocal := strings.CutPrefix(name, localPrefix)
	switch kind {
	case string(corev1.SeccompProfileTypeUnconfined):
		f.forbid(name != unconfined, at.Child("type"), what+agreeOnType)
	case string(corev1.SeccompProfileTypeRuntimeDefault):
		f.forbid(name != runtimeDefault, at.Child("type"), what+agreeOnType)
	case string(corev1.SeccompProfileTypeLocalhost):
		f.forbid(!isLocal, at.Child("type"), what+agreeOnType)
		f.forbid(isLocal && (local == nil || *local != profile), at.Child("localhostProfile"), what+agreeOnProfile)
	}
}

func onWindows(spec *corev1.PodSpec) bool { return spec.OS != nil && spec.OS.Name == corev1.Windows }

// keptAnnotations refuses to add, change or remove what a kubelet has read once.
func (f *faults) keptAnnotations(now, was map[string]string) {
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
		f.forbid(strings.HasPrefix(key, appArmorPrefix), annotationsPath().Key(key), "may not "+verb+" AppArmor annotations")
		f.forbid(key == corev1.MirrorPodAnnotationKey, annotationsPath().Key(key), "may not "+verb+" mirror pod annotation")
	}
}

// nodeAnnotations checks the taints that a Node had in an annotation, and the Pods that it would rather not have.
func (f *faults) nodeAnnotations(annotations map[string]string) {
	at := annotationsPath()
	if taints, ok := annotationJSON[[]corev1.Taint](f, annotations, corev1.TaintsAnnotationKey, at, at); ok {
		f.taints(taints, at.Child(corev1.TaintsAnnotationKey))
	}
	avoid, _ := annotationJSON[corev1.AvoidPods](f, annotations, corev1.PreferAvoidPodsAnnotationKey, at, at.Child("AvoidPods"))
	for i, entry := range avoid.PreferAvoidPods {
		at := at.Child(corev1.PreferAvoidPodsAnnotationKey).Index(i).Child("PodSignature")
		owner := entry.PodSignature.PodController
		if f.need(owner != nil, at); owner != nil {
			f.invalid(!isTrue(owner.Controller), at.Child("PodController", "Controller"), false, "must point to a controller")
		}
	}
}

// serviceAnnotations checks two names of one setting.
func (f *faults) serviceAnnotations(annotations map[string]string) {
	//lint:ignore SA1019 it is the older name
	const older = corev1.DeprecatedAnnotationTopologyAwareHints
	hints, old := annotations[older]
	mode, now := annotations[corev1.AnnotationTopologyMode]
	f.invalid(old && now && mode != hints, annotationsPath().Key(corev1.AnnotationTopologyMode), mode,
		"must match annotations["+older+"] when both are specified")
}

// mountOptions refuses them in an annotation of a volume that cannot have some.
func (f *faults) mountOptions(pv *corev1.PersistentVolume) {
	_, given := pv.Annotations[corev1.MountOptionAnnotation]
	s := &pv.Spec
	can := s.GCEPersistentDisk != nil || s.AWSElasticBlockStore != nil || s.Glusterfs != nil || s.NFS != nil || s.RBD != nil || s.Quobyte != nil ||
		s.ISCSI != nil || s.Cinder != nil || s.CephFS != nil || s.AzureFile != nil || s.VsphereVolume != nil || s.AzureDisk != nil || s.PhotonPersistentDisk != nil
	f.forbid(given && !can, annotationsPath().Child(corev1.MountOptionAnnotation), "may not specify mount options for this volume type")
}

// classAnnotation refuses to change the class that a claim has in its annotation, unless it becomes the field's. It reports whether
// the field may be set that was not.
func (f *faults) classAnnotation(now, was *corev1.PersistentVolumeClaim) (mayBeSet bool) {
	class, before := now.Annotations[corev1.BetaStorageClassAnnotation], was.Annotations[corev1.BetaStorageClassAnnotation]
	_, has := now.Annotations[corev1.BetaStorageClassAnnotation]
	_, had := was.Annotations[corev1.BetaStorageClassAnnotation]
	field, unset := now.Spec.StorageClassName, was.Spec.StorageClassName == nil
	mayBeSet = unset && field != nil && (!had || *field == before)
	becomes := mayBeSet && had && (!has || class == before)
	f.invalid(!becomes && class != before, annotationsPath().Child(corev1.BetaStorageClassAnnotation), class, "field is immutable")
	return mayBeSet
}

// nonConvertible refuses to change what an older version of a ReplicationController could not express.
func (f *faults) nonConvertible(now, was *corev1.ReplicationController) {
	for _, key := range slices.Sorted(maps.Keys(was.Annotations)) {
		name, ok := strings.CutPrefix(key, corev1.NonConvertibleAnnotationPrefix+"/")
		switch {
		case !ok || strings.Contains(name, "/"):
		case strings.Contains(name, "selector"):
			changed := !apiequality.Semantic.DeepEqual(now.Spec.Selector, was.Spec.Selector)
			f.invalid(changed, specPath("selector"), now.Spec.Selector, "cannot update non-convertible selector")
		default:
			f.list = append(f.list, &field.Error{Type: field.ErrorTypeNotFound, BadValue: was.Annotations[key], Field: name, Detail: "unknown non-convertible field"})
		}
	}
}
