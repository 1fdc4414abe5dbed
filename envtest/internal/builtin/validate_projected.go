// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The fields of a Pod that it can be told, in files and in variables.
var (
	fileFields     = []string{"metadata.name", "metadata.namespace", "metadata.labels", "metadata.annotations", "metadata.uid"}
	variableFields = []string{"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"}
	resourceFields = []string{"limits.cpu", "limits.memory", "limits.ephemeral-storage", "requests.cpu", "requests.memory", "requests.ephemeral-storage"}
	byteDivisors   = []string{"1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"}
)

// projected checks a volume that is made of several sources.
func (f *faults) projected(v *corev1.ProjectedVolumeSource, at *field.Path) {
	f.mode(v.DefaultMode, at.Child("defaultMode"))
	paths := sets.New[string]()
	once := func(path string, what any) {
		f.invalid(path != "" && paths.Has(path), at, what, "conflicting duplicate paths")
		paths.Insert(path)
	}
	for i := range v.Sources {
		source, here := &v.Sources[i], at.Child("sources").Index(i)
		given := 0
		if s := source.Secret; s != nil {
			given++
			f.text(s.Name, here.Child("secret", "name"))
			f.projectedItems(s.Items, s.Name, once, here.Child("secret", "items"))
		}
		if s := source.ConfigMap; s != nil {
			given++
			f.text(s.Name, here.Child("configMap", "name"))
			f.projectedItems(s.Items, s.Name, once, here.Child("configMap", "items"))
		}
		if s := source.DownwardAPI; s != nil {
			given++
			for j := range s.Items {
				f.downwardFile(&s.Items[j], here.Child("downwardAPI"))
				once(s.Items[j].Path, s.Items[j].Path)
			}
		}
		if s := source.ServiceAccountToken; s != nil {
			given++
			f.projectedToken(s, at, here.Child("serviceAccountToken"))
		}
		f.forbid(given > 1, here, "may not specify more than 1 volume type per source")
	}
}

func (f *faults) projectedItems(items []corev1.KeyToPath, name string, once func(string, any), at *field.Path) {
	for i := range items {
		f.keyToPath(&items[i], at.Index(i))
		once(items[i].Path, name)
	}
}

// projectedToken reports a wrong path at the volume, as a kube-apiserver does.
func (f *faults) projectedToken(s *corev1.ServiceAccountTokenProjection, volume, at *field.Path) {
	if s.ExpirationSeconds != nil {
		f.invalid(*s.ExpirationSeconds < 600, at.Child("expirationSeconds"), *s.ExpirationSeconds, "may not specify a duration less than 10 minutes")
		f.invalid(*s.ExpirationSeconds > 1<<32, at.Child("expirationSeconds"), *s.ExpirationSeconds, "may not specify a duration larger than 2^32 seconds")
	}
	if f.text(s.Path, volume.Child("path")) {
		f.localPath(s.Path, volume.Child("path"))
	}
}

// downwardFile checks a file that tells a Pod about itself. All are reported at the volume.
func (f *faults) downwardFile(file *corev1.DownwardAPIVolumeFile, at *field.Path) {
	f.text(file.Path, at.Child("path"))
	f.localPath(file.Path, at.Child("path"))
	switch {
	case file.FieldRef != nil:
		f.fieldRef(file.FieldRef, fileFields, at.Child("fieldRef"))
		f.invalid(file.ResourceFieldRef != nil, at, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
	case file.ResourceFieldRef != nil:
		f.resourceFieldRef(file.ResourceFieldRef, true, at.Child("resourceFieldRef"))
	default:
		f.need(false, at)
	}
	f.mode(file.Mode, at.Child("mode"))
}

// fieldRef checks a reference to a field of a Pod; allowed are the fields that can be told.
func (f *faults) fieldRef(ref *corev1.ObjectFieldSelector, allowed []string, at *field.Path) {
	if !f.text(ref.APIVersion, at.Child("apiVersion")) || !f.text(ref.FieldPath, at.Child("fieldPath")) {
		return
	}
	f.invalid(ref.APIVersion != "v1", at.Child("fieldPath"), ref.FieldPath, "error converting fieldPath: unsupported pod version: "+ref.APIVersion)
	if ref.APIVersion != "v1" {
		return
	}
	path, key, subscripted := strings.Cut(ref.FieldPath, "['")
	if subscripted && strings.HasSuffix(key, "']") {
		key = strings.TrimSuffix(key, "']")
		switch path {
		case "metadata.annotations":
			f.messages(validation.IsQualifiedName(strings.ToLower(key)), strings.ToLower(key), at)
		case "metadata.labels":
			f.messages(validation.IsQualifiedName(key), key, at)
		default:
			f.invalid(true, at.Child("fieldPath"), ref.FieldPath, "error converting fieldPath: field label does not support subscript: "+path)
		}
		return
	}
	convertible := slices.Concat(fileFields, variableFields, []string{"spec.restartPolicy", "spec.schedulerName", "status.phase", "spec.host"})
	if !slices.Contains(convertible, ref.FieldPath) {
		f.invalid(true, at.Child("fieldPath"), ref.FieldPath, "error converting fieldPath: field label not supported: "+ref.FieldPath)
		return
	}
	known(f, ref.FieldPath, at.Child("fieldPath"), allowed...)
}

// resourceFieldRef checks a reference to what a container asks for. A file must name the container.
func (f *faults) resourceFieldRef(ref *corev1.ResourceFieldSelector, file bool, at *field.Path) {
	huge := strings.HasPrefix(ref.Resource, "requests.hugepages-") || strings.HasPrefix(ref.Resource, "limits.hugepages-")
	switch {
	case file && ref.ContainerName == "":
		f.need(false, at.Child("containerName"))
	case ref.Resource == "":
		f.need(false, at.Child("resource"))
	case !huge:
		known(f, ref.Resource, at.Child("resource"), resourceFields...)
	}
	f.divisor(ref, at.Child("divisor"))
}

func (f *faults) divisor(ref *corev1.ResourceFieldSelector, at *field.Path) {
	if ref.Divisor.Cmp(resource.Quantity{}) == 0 {
		return
	}
	divisor := ref.Divisor.String()
	_, what, _ := strings.Cut(ref.Resource, ".")
	switch {
	case what == "cpu":
		f.invalid(divisor != "1" && divisor != "1m", at, ref.Resource, "only divisor's values 1m and 1 are supported with the cpu resource")
	case what == "memory", what == "ephemeral-storage", strings.HasPrefix(what, "hugepages-"):
		f.invalid(!slices.Contains(byteDivisors, divisor), at, ref.Resource,
			fmt.Sprintf("only divisor's values %s are supported with the %s resource", strings.Join(byteDivisors, ", "), what))
	}
}
