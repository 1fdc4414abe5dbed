// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package core

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

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/podspec"
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
	if old != nil && kind.IsTrue(old.Immutable) {
		errs = append(errs, frozenContent(kind.IsTrue(cm.Immutable), map[string][2]any{
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
	errs = append(errs, kind.Frozen(secret.Type, old.Type, field.NewPath("type"))...)
	if kind.IsTrue(old.Immutable) {
		errs = append(errs, frozenContent(kind.IsTrue(secret.Immutable), map[string][2]any{"data": {secret.Data, old.Data}})...)
	}
	return errs
}

// secretTypeKeys checks that a Secret has the keys of its type, and that the values for container runtimes are JSON
// objects.
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
		errs = append(errs, kind.InvalidIf(validation.IsConfigMapKey(key), key, path.Key(key))...)
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

// validatePersistentVolumeClaim checks what is asked for, and keeps it: only the size of a bound claim may grow.
func validatePersistentVolumeClaim(pvc, old *corev1.PersistentVolumeClaim) field.ErrorList {
	errs := podspec.ValidateClaimSpec(&pvc.Spec, kind.SpecPath())
	if old == nil {
		return errs
	}
	path, f := kind.SpecPath(), kind.Findings{List: errs}
	now, was := pvc.Spec.DeepCopy(), old.Spec.DeepCopy()
	if was.VolumeName == "" {
		was.VolumeName = now.VolumeName
	}
	if pvc.Status.Phase == corev1.ClaimBound {
		now.Resources.Requests = was.Resources.Requests
		now.VolumeAttributesClassName = was.VolumeAttributesClassName
	}
	if checkClassAnnotation(&f, pvc, old) {
		now.StorageClassName = nil
	}
	if !apiequality.Semantic.DeepEqual(now, was) {
		f.Forbid(true, path, "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n"+diff.Diff(was, now))
	}
	f.Add(kind.Frozen(pvc.Spec.VolumeMode, old.Spec.VolumeMode, field.NewPath("volumeMode")))
	size, before := pvc.Spec.Resources.Requests[corev1.ResourceStorage], old.Spec.Resources.Requests[corev1.ResourceStorage]
	capacity := old.Status.Capacity[corev1.ResourceStorage]
	f.Forbid(size.Cmp(before) < 0 && size.Cmp(capacity) <= 0, path.Child("resources", "requests", "storage"), "field can not be less than status.capacity")
	return f.List
}

func validateNamespace(ns, old *corev1.Namespace) field.ErrorList {
	var f kind.Findings
	for _, name := range ns.Spec.Finalizers {
		if old == nil {
			f.Messages(validation.IsQualifiedName(string(name)), name, kind.SpecPath("finalizers"))
			f.Invalid(!strings.Contains(string(name), "/") && name != corev1.FinalizerKubernetes, kind.SpecPath("finalizers"), name,
				"name is neither a standard finalizer name nor is it fully qualified")
		}
	}
	return f.List
}

// validateNamespaceStatus checks that a namespace terminates when it is deleted, and only then.
func validateNamespaceStatus(ns, _ *corev1.Namespace) field.ErrorList {
	var f kind.Findings
	phase := ns.Status.Phase
	f.Invalid(ns.DeletionTimestamp == nil && phase != corev1.NamespaceActive, field.NewPath("status", "Phase"), phase,
		"may only be 'Active' if `deletionTimestamp` is empty")
	f.Invalid(ns.DeletionTimestamp != nil && phase != corev1.NamespaceTerminating, field.NewPath("status", "Phase"), phase,
		"may only be 'Terminating' if `deletionTimestamp` is not empty")
	return f.List
}
