// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateConfigMap checks keys and size, and keeps the content of an immutable one.
func validateConfigMap(cm, old *corev1.ConfigMap) field.ErrorList {
	size := 0
	errs := dataKeys(cm.Data, field.NewPath("data"))
	errs = append(errs, dataKeys(cm.BinaryData, field.NewPath("binaryData"))...)
	for key, value := range cm.Data {
		size += len(value)
		if _, ok := cm.BinaryData[key]; ok {
			errs = append(errs, field.Invalid(field.NewPath("data").Key(key), key, "duplicate of key present in binaryData"))
		}
	}
	for _, value := range cm.BinaryData {
		size += len(value)
	}
	if size > corev1.MaxSecretSize {
		errs = append(errs, field.TooLong(field.NewPath(""), "", corev1.MaxSecretSize))
	}
	if old != nil && isTrue(old.Immutable) {
		errs = append(errs, frozenContent(isTrue(cm.Immutable), map[string][2]any{
			"data": {cm.Data, old.Data}, "binaryData": {cm.BinaryData, old.BinaryData},
		})...)
	}
	return errs
}

// validateSecret checks keys, size and what the type asks for, and keeps the type, and the content of an immutable one.
func validateSecret(secret, old *corev1.Secret) field.ErrorList {
	size := 0
	errs := dataKeys(secret.Data, field.NewPath("data"))
	for _, value := range secret.Data {
		size += len(value)
	}
	if size > corev1.MaxSecretSize {
		errs = append(errs, field.TooLong(field.NewPath("data"), "", corev1.MaxSecretSize))
	}
	errs = append(errs, secretTypeKeys(secret)...)
	if old == nil {
		return errs
	}
	errs = append(errs, frozen(secret.Type, old.Type, field.NewPath("type"))...)
	if isTrue(old.Immutable) {
		errs = append(errs, frozenContent(isTrue(secret.Immutable), map[string][2]any{"data": {secret.Data, old.Data}})...)
	}
	return errs
}

// secretTypeKeys checks that a Secret has the keys of its type, and that what container runtimes read is a JSON object.
func secretTypeKeys(secret *corev1.Secret) field.ErrorList {
	needed := map[corev1.SecretType][]string{
		corev1.SecretTypeTLS:              {corev1.TLSCertKey, corev1.TLSPrivateKeyKey},
		corev1.SecretTypeDockercfg:        {corev1.DockerConfigKey},
		corev1.SecretTypeDockerConfigJson: {corev1.DockerConfigJsonKey},
	}
	var errs field.ErrorList
	for _, key := range needed[secret.Type] {
		value, ok := secret.Data[key]
		if !ok {
			errs = append(errs, field.Required(field.NewPath("data").Key(key), ""))
		} else if secret.Type != corev1.SecretTypeTLS {
			errs = append(errs, secretObject(value, field.NewPath("data").Key(key))...)
		}
	}
	if secret.Type == corev1.SecretTypeSSHAuth && len(secret.Data[corev1.SSHAuthPrivateKey]) == 0 {
		errs = append(errs, field.Required(field.NewPath("data").Key(corev1.SSHAuthPrivateKey), ""))
	}
	if secret.Type == corev1.SecretTypeServiceAccountToken && secret.Annotations[corev1.ServiceAccountNameKey] == "" {
		errs = append(errs, field.Required(field.NewPath("metadata", "annotations").Key(corev1.ServiceAccountNameKey), ""))
	}
	_, user := secret.Data[corev1.BasicAuthUsernameKey]
	_, password := secret.Data[corev1.BasicAuthPasswordKey]
	if secret.Type == corev1.SecretTypeBasicAuth && !user && !password {
		errs = append(errs, field.Required(field.NewPath("data").Key(corev1.BasicAuthUsernameKey), ""),
			field.Required(field.NewPath("data").Key(corev1.BasicAuthPasswordKey), ""))
	}
	return errs
}

// secretObject checks that a secret value is a JSON object, and does not tell the value.
func secretObject(value []byte, path *field.Path) field.ErrorList {
	if err := json.Unmarshal(value, &map[string]any{}); err != nil {
		return field.ErrorList{field.Invalid(path, "<secret contents redacted>", err.Error())}
	}
	return nil
}

// dataKeys checks the keys of a ConfigMap or Secret.
func dataKeys[V any](data map[string]V, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(data)) {
		errs = append(errs, invalidIf(validation.IsConfigMapKey(key), key, path.Key(key))...)
	}
	return errs
}

// frozenContent refuses changes of an immutable ConfigMap or Secret: fields are [new, old] by name.
func frozenContent(stillImmutable bool, fields map[string][2]any) field.ErrorList {
	const message = "field is immutable when `immutable` is set"
	var errs field.ErrorList
	if !stillImmutable {
		errs = append(errs, field.Forbidden(field.NewPath("immutable"), message))
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !reflect.DeepEqual(fields[name][0], fields[name][1]) {
			errs = append(errs, field.Forbidden(field.NewPath(name), message))
		}
	}
	return errs
}

// isTrue reads an optional flag.
func isTrue(flag *bool) bool { return flag != nil && *flag }

// validateReplicationController checks selector and template.
func validateReplicationController(rc, old *corev1.ReplicationController) field.ErrorList {
	path := specPath()
	errs := notNegative(rc.Spec.Replicas, path.Child("replicas"))
	if old != nil {
		var f faults
		f.nonConvertible(rc, old)
		errs = append(errs, f.list...)
	}
	if len(rc.Spec.Selector) == 0 {
		errs = append(errs, field.Required(path.Child("selector"), ""))
	}
	errs = append(errs, notNegative(&rc.Spec.MinReadySeconds, path.Child("minReadySeconds"))...)
	if rc.Spec.Template == nil {
		return append(errs, field.Required(path.Child("template"), ""))
	}
	for key, value := range rc.Spec.Selector {
		if got, ok := rc.Spec.Template.Labels[key]; !ok || got != value {
			errs = append(errs, field.Invalid(path.Child("template", "metadata", "labels"), rc.Spec.Template.Labels, "`selector` does not match template `labels`"))
			break
		}
	}
	return append(errs, validateTemplate(rc.Spec.Template, path.Child("template"), corev1.RestartPolicyAlways)...)
}

func validatePodTemplate(template, _ *corev1.PodTemplate) field.ErrorList {
	return validateTemplate(&template.Template, field.NewPath("template"))
}

// validatePersistentVolumeClaim checks what is asked for, and keeps it: only the size of a bound claim may grow.
func validatePersistentVolumeClaim(pvc, old *corev1.PersistentVolumeClaim) field.ErrorList {
	errs := validateClaimSpec(&pvc.Spec, specPath())
	if old == nil {
		return errs
	}
	path, f := specPath(), faults{list: errs}
	now, was := pvc.Spec.DeepCopy(), old.Spec.DeepCopy()
	if was.VolumeName == "" {
		was.VolumeName = now.VolumeName
	}
	if pvc.Status.Phase == corev1.ClaimBound {
		now.Resources.Requests = was.Resources.Requests
		now.VolumeAttributesClassName = was.VolumeAttributesClassName
	}
	if f.classAnnotation(pvc, old) {
		now.StorageClassName = nil
	}
	if !apiequality.Semantic.DeepEqual(now, was) {
		f.forbid(true, path, "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n"+diff.Diff(was, now))
	}
	f.add(frozen(pvc.Spec.VolumeMode, old.Spec.VolumeMode, field.NewPath("volumeMode")))
	size, before := pvc.Spec.Resources.Requests[corev1.ResourceStorage], old.Spec.Resources.Requests[corev1.ResourceStorage]
	capacity := old.Status.Capacity[corev1.ResourceStorage]
	f.forbid(size.Cmp(before) < 0 && size.Cmp(capacity) <= 0, path.Child("resources", "requests", "storage"), "field can not be less than status.capacity")
	return f.list
}

func validateNamespace(ns, old *corev1.Namespace) field.ErrorList {
	var f faults
	for _, name := range ns.Spec.Finalizers {
		if old == nil {
			f.messages(validation.IsQualifiedName(string(name)), name, specPath("finalizers"))
			f.invalid(!strings.Contains(string(name), "/") && name != corev1.FinalizerKubernetes, specPath("finalizers"), name,
				"name is neither a standard finalizer name nor is it fully qualified")
		}
	}
	return f.list
}

// validateNamespaceStatus checks that a namespace terminates when it is deleted, and only then.
func validateNamespaceStatus(ns, _ *corev1.Namespace) field.ErrorList {
	var f faults
	phase := ns.Status.Phase
	f.invalid(ns.DeletionTimestamp == nil && phase != corev1.NamespaceActive, field.NewPath("status", "Phase"), phase,
		"may only be 'Active' if `deletionTimestamp` is empty")
	f.invalid(ns.DeletionTimestamp != nil && phase != corev1.NamespaceTerminating, field.NewPath("status", "Phase"), phase,
		"may only be 'Terminating' if `deletionTimestamp` is not empty")
	return f.list
}
