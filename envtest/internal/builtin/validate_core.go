// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"maps"
	"net/netip"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
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

// secretTypeKeys checks that a Secret has the keys of its type.
func secretTypeKeys(secret *corev1.Secret) field.ErrorList {
	needed := map[corev1.SecretType][]string{
		corev1.SecretTypeTLS:              {corev1.TLSCertKey, corev1.TLSPrivateKeyKey},
		corev1.SecretTypeSSHAuth:          {corev1.SSHAuthPrivateKey},
		corev1.SecretTypeDockercfg:        {corev1.DockerConfigKey},
		corev1.SecretTypeDockerConfigJson: {corev1.DockerConfigJsonKey},
	}
	var errs field.ErrorList
	for _, key := range needed[secret.Type] {
		if _, ok := secret.Data[key]; !ok {
			errs = append(errs, field.Required(field.NewPath("data").Key(key), ""))
		}
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
func validateReplicationController(rc, _ *corev1.ReplicationController) field.ErrorList {
	path := specPath()
	errs := notNegative(rc.Spec.Replicas, path.Child("replicas"))
	if len(rc.Spec.Selector) == 0 {
		errs = append(errs, field.Required(path.Child("selector"), ""))
	}
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

// validatePersistentVolume checks that there is one source and what it is good for. The source is kept.
func validatePersistentVolume(pv, old *corev1.PersistentVolume) field.ErrorList {
	path := specPath()
	errs := accessModes(pv.Spec.AccessModes, path.Child("accessModes"))
	if _, ok := pv.Spec.Capacity[corev1.ResourceStorage]; !ok {
		errs = append(errs, field.Required(path.Child("capacity"), ""))
	}
	errs = append(errs, oneOf(pv.Spec.PersistentVolumeReclaimPolicy, path.Child("persistentVolumeReclaimPolicy"),
		corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRecycle, corev1.PersistentVolumeReclaimRetain)...)
	switch sources := countSet(pv.Spec.PersistentVolumeSource); {
	case sources == 0:
		errs = append(errs, field.Required(path, "must specify a volume type"))
	case sources > 1:
		errs = append(errs, field.Forbidden(path, "may not specify more than 1 volume type"))
	}
	if old == nil {
		return errs
	}
	if !apiequality.Semantic.DeepEqual(pv.Spec.PersistentVolumeSource, old.Spec.PersistentVolumeSource) {
		errs = append(errs, field.Forbidden(path.Child("persistentvolumesource"), "spec.persistentvolumesource is immutable after creation"))
	}
	return append(errs, frozen(pv.Spec.VolumeMode, old.Spec.VolumeMode, field.NewPath("volumeMode"))...)
}

// countSet counts the fields of a struct that are not nil.
func countSet(sources any) int {
	n := 0
	v := reflect.ValueOf(sources)
	for i := range v.NumField() {
		if !v.Field(i).IsZero() {
			n++
		}
	}
	return n
}

// validatePersistentVolumeClaim checks what is asked for, and keeps it: only the size of a bound claim may grow.
func validatePersistentVolumeClaim(pvc, old *corev1.PersistentVolumeClaim) field.ErrorList {
	errs := validateClaimSpec(&pvc.Spec, specPath())
	if old == nil {
		return errs
	}
	path := specPath()
	now, was := pvc.Spec.DeepCopy(), old.Spec.DeepCopy()
	if was.VolumeName == "" {
		was.VolumeName = now.VolumeName
	}
	if pvc.Status.Phase == corev1.ClaimBound {
		now.Resources.Requests = was.Resources.Requests
		now.VolumeAttributesClassName = was.VolumeAttributesClassName
	}
	if was.StorageClassName == nil {
		now.StorageClassName = nil
	}
	if !apiequality.Semantic.DeepEqual(now, was) {
		errs = append(errs, field.Forbidden(path, "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"))
	}
	size, before := pvc.Spec.Resources.Requests[corev1.ResourceStorage], old.Spec.Resources.Requests[corev1.ResourceStorage]
	capacity := old.Status.Capacity[corev1.ResourceStorage]
	if size.Cmp(before) < 0 && size.Cmp(capacity) <= 0 {
		errs = append(errs, field.Forbidden(path.Child("resources", "requests", "storage"), "field can not be less than status.capacity"))
	}
	return errs
}

// validateClaimSpec checks a claim, or a template for claims.
func validateClaimSpec(spec *corev1.PersistentVolumeClaimSpec, path *field.Path) field.ErrorList {
	errs := accessModes(spec.AccessModes, path.Child("accessModes"))
	errs = append(errs, labelSelector(spec.Selector, path.Child("selector"))...)
	storage, ok := spec.Resources.Requests[corev1.ResourceStorage]
	at := path.Child("resources").Key(string(corev1.ResourceStorage))
	switch {
	case !ok:
		errs = append(errs, field.Required(at, ""))
	case storage.Sign() <= 0:
		errs = append(errs, field.Invalid(at, storage.String(), "must be greater than zero"))
	}
	return errs
}

func accessModes(modes []corev1.PersistentVolumeAccessMode, path *field.Path) field.ErrorList {
	if len(modes) == 0 {
		return field.ErrorList{field.Required(path, "at least 1 access mode is required")}
	}
	var errs field.ErrorList
	for i, mode := range modes {
		errs = append(errs, oneOf(mode, path.Index(i), corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod)...)
	}
	return errs
}

// validateEvent checks that an event is where its object is.
func validateEvent(event, _ *corev1.Event) field.ErrorList {
	of := event.InvolvedObject.Namespace
	if of == event.Namespace || of == "" && event.Namespace == corev1.NamespaceDefault ||
		of == "" && event.Namespace == "kube-system" {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("involvedObject", "namespace"), of, "does not match event.namespace")}
}

// validateEndpoints checks addresses and ports.
//
//lint:ignore SA1019 Endpoints are served as long as a kube-apiserver serves them.
func validateEndpoints(endpoints, _ *corev1.Endpoints) field.ErrorList {
	var errs field.ErrorList
	for i, subset := range endpoints.Subsets {
		path := field.NewPath("subsets").Index(i)
		if len(subset.Addresses)+len(subset.NotReadyAddresses) == 0 {
			errs = append(errs, field.Required(path, "must specify `addresses` or `notReadyAddresses`"))
		}
		for j, address := range subset.Addresses {
			if _, err := netip.ParseAddr(address.IP); err != nil {
				errs = append(errs, field.Invalid(path.Child("addresses").Index(j).Child("ip"), address.IP, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"))
			}
		}
		for j, port := range subset.Ports {
			errs = append(errs, invalidIf(validation.IsValidPortNum(int(port.Port)), port.Port, path.Child("ports").Index(j).Child("port"))...)
		}
	}
	return errs
}
