// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// The fields of a Pod that it can be told, in files and in variables.
var (
	fileFields     = []string{"metadata.name", "metadata.namespace", "metadata.labels", "metadata.annotations", "metadata.uid"}
	variableFields = []string{"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"}
	resourceFields = []string{"limits.cpu", "limits.memory", "limits.ephemeral-storage", "requests.cpu", "requests.memory", "requests.ephemeral-storage"}
	byteDivisors   = []string{"1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"}
)

// checkProjected checks a volume that is made of several sources.
func checkProjected(f *kind.Findings, v *corev1.ProjectedVolumeSource, at *field.Path) {
	checkMode(f, v.DefaultMode, at.Child("defaultMode"))
	paths := sets.New[string]()
	once := func(path string, what any) {
		f.Invalid(path != "" && paths.Has(path), at, what, "conflicting duplicate paths")
		paths.Insert(path)
	}
	for i := range v.Sources {
		source, here := &v.Sources[i], at.Child("sources").Index(i)
		given := 0
		if s := source.Secret; s != nil {
			given++
			f.Text(s.Name, here.Child("secret", "name"))
			checkProjectedItems(f, s.Items, s.Name, once, here.Child("secret", "items"))
		}
		if s := source.ConfigMap; s != nil {
			given++
			f.Text(s.Name, here.Child("configMap", "name"))
			checkProjectedItems(f, s.Items, s.Name, once, here.Child("configMap", "items"))
		}
		if s := source.DownwardAPI; s != nil {
			given++
			for j := range s.Items {
				checkDownwardFile(f, &s.Items[j], here.Child("downwardAPI"))
				once(s.Items[j].Path, s.Items[j].Path)
			}
		}
		if s := source.ServiceAccountToken; s != nil {
			given++
			checkProjectedToken(f, s, at, here.Child("serviceAccountToken"))
		}
		f.Forbid(given > 1, here, "may not specify more than 1 volume type per source")
	}
}

func checkProjectedItems(f *kind.Findings, items []corev1.KeyToPath, name string, once func(string, any), at *field.Path) {
	for i := range items {
		checkKeyToPath(f, &items[i], at.Index(i))
		once(items[i].Path, name)
	}
}

// checkProjectedToken reports a wrong path at the volume, as a kube-apiserver does.
func checkProjectedToken(f *kind.Findings, s *corev1.ServiceAccountTokenProjection, volume, at *field.Path) {
	if s.ExpirationSeconds != nil {
		f.Invalid(*s.ExpirationSeconds < 600, at.Child("expirationSeconds"), *s.ExpirationSeconds, "may not specify a duration less than 10 minutes")
		f.Invalid(*s.ExpirationSeconds > 1<<32, at.Child("expirationSeconds"), *s.ExpirationSeconds, "may not specify a duration larger than 2^32 seconds")
	}
	if f.Text(s.Path, volume.Child("path")) {
		checkLocalPath(f, s.Path, volume.Child("path"))
	}
}

// checkDownwardFile checks a file that tells a Pod about itself. All are reported at the volume.
func checkDownwardFile(f *kind.Findings, file *corev1.DownwardAPIVolumeFile, at *field.Path) {
	f.Text(file.Path, at.Child("path"))
	checkLocalPath(f, file.Path, at.Child("path"))
	switch {
	case file.FieldRef != nil:
		checkFieldRef(f, file.FieldRef, fileFields, at.Child("fieldRef"))
		f.Invalid(file.ResourceFieldRef != nil, at, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
	case file.ResourceFieldRef != nil:
		checkResourceFieldRef(f, file.ResourceFieldRef, true, at.Child("resourceFieldRef"))
	default:
		f.Need(false, at)
	}
	checkMode(f, file.Mode, at.Child("mode"))
}

// checkFieldRef checks a reference to a field of a Pod; allowed are the fields that can be told.
func checkFieldRef(f *kind.Findings, ref *corev1.ObjectFieldSelector, allowed []string, at *field.Path) {
	if !f.Text(ref.APIVersion, at.Child("apiVersion")) || !f.Text(ref.FieldPath, at.Child("fieldPath")) {
		return
	}
	f.Invalid(ref.APIVersion != "v1", at.Child("fieldPath"), ref.FieldPath, "error converting fieldPath: unsupported pod version: "+ref.APIVersion)
	if ref.APIVersion != "v1" {
		return
	}
	path, key, subscripted := strings.Cut(ref.FieldPath, "['")
	if subscripted && strings.HasSuffix(key, "']") {
		key = strings.TrimSuffix(key, "']")
		switch path {
		case "metadata.annotations":
			f.Messages(validation.IsQualifiedName(strings.ToLower(key)), strings.ToLower(key), at)
		case "metadata.labels":
			f.Messages(validation.IsQualifiedName(key), key, at)
		default:
			f.Invalid(true, at.Child("fieldPath"), ref.FieldPath, "error converting fieldPath: field label does not support subscript: "+path)
		}
		return
	}
	convertible := slices.Concat(fileFields, variableFields, []string{"spec.restartPolicy", "spec.schedulerName", "status.phase", "spec.host"})
	if !slices.Contains(convertible, ref.FieldPath) {
		f.Invalid(true, at.Child("fieldPath"), ref.FieldPath, "error converting fieldPath: field label not supported: "+ref.FieldPath)
		return
	}
	kind.Known(f, ref.FieldPath, at.Child("fieldPath"), allowed...)
}

// checkResourceFieldRef checks a reference to what a container asks for. A file must name the container.
func checkResourceFieldRef(f *kind.Findings, ref *corev1.ResourceFieldSelector, file bool, at *field.Path) {
	huge := strings.HasPrefix(ref.Resource, "requests.hugepages-") || strings.HasPrefix(ref.Resource, "limits.hugepages-")
	switch {
	case file && ref.ContainerName == "":
		f.Need(false, at.Child("containerName"))
	case ref.Resource == "":
		f.Need(false, at.Child("resource"))
	case !huge:
		kind.Known(f, ref.Resource, at.Child("resource"), resourceFields...)
	}
	checkDivisor(f, ref, at.Child("divisor"))
}

func checkDivisor(f *kind.Findings, ref *corev1.ResourceFieldSelector, at *field.Path) {
	if ref.Divisor.Cmp(resource.Quantity{}) == 0 {
		return
	}
	divisor := ref.Divisor.String()
	_, what, _ := strings.Cut(ref.Resource, ".")
	switch {
	case what == "cpu":
		f.Invalid(divisor != "1" && divisor != "1m", at, ref.Resource, "only divisor's values 1m and 1 are supported with the cpu resource")
	case what == "memory", what == "ephemeral-storage", strings.HasPrefix(what, "hugepages-"):
		f.Invalid(!slices.Contains(byteDivisors, divisor), at, ref.Resource,
			fmt.Sprintf("only divisor's values %s are supported with the %s resource", strings.Join(byteDivisors, ", "), what))
	}
}
