// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/core"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/podspec"
)

const (
	maxClassParameters     = 512
	maxClassParametersSize = 256 << 10
)

func validateVolumeAttributesClass(class, old *storagev1.VolumeAttributesClass) field.ErrorList {
	var errs field.ErrorList
	driver, parameters := field.NewPath("driverName"), field.NewPath("parameters")
	if old != nil && class.DriverName != old.DriverName {
		errs = append(errs, field.Forbidden(driver, "updates to driverName are forbidden."))
	}
	if old != nil && !maps.Equal(class.Parameters, old.Parameters) {
		errs = append(errs, field.Forbidden(parameters, "updates to parameters are forbidden."))
	}
	errs = append(errs, kind.Required(class.DriverName, driver)...)
	if class.DriverName != "" {
		errs = append(errs, kind.InvalidIf(validation.IsQualifiedName(strings.ToLower(class.DriverName)), strings.ToLower(class.DriverName), driver)...)
	}
	if len(class.Parameters) > maxClassParameters {
		return append(errs, field.TooLong(parameters, "", maxClassParameters))
	}
	size := 0
	for key, value := range class.Parameters {
		if key == "" {
			errs = append(errs, field.Invalid(parameters, key, "field can not be empty."))
		}
		size += len(key) + len(value)
	}
	if size > maxClassParametersSize {
		errs = append(errs, field.TooLong(parameters, "", maxClassParametersSize))
	}
	if len(class.Parameters) == 0 {
		errs = append(errs, field.Required(parameters, "must contain at least one key/value pair"))
	}
	return errs
}

func validateCSIStorageCapacity(capacity, old *storagev1.CSIStorageCapacity) field.ErrorList {
	topology, class := field.NewPath("nodeTopology"), field.NewPath("storageClassName")
	errs := kind.LabelSelector(capacity.NodeTopology, topology)
	errs = append(errs, kind.InvalidIf(apivalidation.NameIsDNSSubdomain(capacity.StorageClassName, false), capacity.StorageClassName, class)...)
	if capacity.Capacity != nil {
		errs = append(errs, kind.NotNegativeQuantity(*capacity.Capacity, field.NewPath("capacity"))...)
	}
	if old == nil {
		return errs
	}
	const immutable = "field is immutable"
	if !apiequality.Semantic.DeepEqual(capacity.NodeTopology, old.NodeTopology) {
		errs = append(errs, field.Invalid(topology, capacity.NodeTopology, immutable))
	}
	if capacity.StorageClassName != old.StorageClassName {
		errs = append(errs, field.Invalid(class, capacity.StorageClassName, immutable))
	}
	return errs
}

func validateVolumeAttachment(attachment, old *storagev1.VolumeAttachment) field.ErrorList {
	f := kind.Findings{}
	spec, at := &attachment.Spec, kind.SpecPath()
	podspec.CheckCsiDriver(&f, spec.Attacher, at.Child("attacher"))
	f.Messages(apivalidation.NameIsDNSSubdomain(spec.NodeName, false), spec.NodeName, at.Child("nodeName"))
	source := at.Child("source")
	inline, named := spec.Source.InlineVolumeSpec, spec.Source.PersistentVolumeName
	switch {
	case inline == nil && named == nil:
		f.Need(false, source)
	case inline != nil && named != nil:
		f.Forbid(true, source, "must specify exactly one of inlineVolumeSpec and persistentVolumeName")
	case named != nil:
		f.Text(*named, source.Child("persistentVolumeName"))
		f.Subdomain(*named, source.Child("persistentVolumeName"))
	default:
		f.Add(core.VolumeSpec(inline, "", true, source.Child("inlineVolumeSpec")))
	}
	f.Add(attachmentStatus(&attachment.Status, field.NewPath("status")))
	if old != nil {
		f.Invalid(!apiequality.Semantic.DeepEqual(*spec, old.Spec), at, *spec, "field is immutable")
	}
	return f.List
}

func attachmentStatus(status *storagev1.VolumeAttachmentStatus, at *field.Path) field.ErrorList {
	var f kind.Findings
	size := 0
	for key, value := range status.AttachmentMetadata {
		f.Need(key != "", at.Child("attachmentMetadata").Key(key))
		size += len(key) + len(value)
	}
	if size > 256<<10 {
		f.List = append(f.List, field.TooLong(at.Child("attachmentMetadata"), "", 256<<10))
	}
	for _, e := range []struct {
		name string
		err  *storagev1.VolumeError
	}{{"attachError", status.AttachError}, {"detachError", status.DetachError}} {
		if e.err == nil {
			continue
		}
		if len(e.err.Message) > 1<<10 {
			f.List = append(f.List, field.TooLong(at.Child(e.name, "message"), "", 1<<10))
		}
		f.Invalid(e.err.ErrorCode != nil && *e.err.ErrorCode < 0, at.Child(e.name, "errorCode"), e.err.ErrorCode, "must be greater than or equal to 0")
	}
	return f.List
}

func validateStorageClass(class, old *storagev1.StorageClass) field.ErrorList {
	var f kind.Findings
	if f.Text(class.Provisioner, field.NewPath("provisioner")) {
		f.Messages(validation.IsQualifiedName(strings.ToLower(class.Provisioner)), class.Provisioner, field.NewPath("provisioner"))
	}
	checkParameters(&f, class.Parameters, field.NewPath("parameters"))
	if policy := class.ReclaimPolicy; policy != nil && *policy != "" {
		kind.Known(&f, *policy, field.NewPath("reclaimPolicy"), corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain)
	}
	mode := field.NewPath("volumeBindingMode")
	if f.Need(class.VolumeBindingMode != nil, mode); class.VolumeBindingMode != nil {
		kind.Known(&f, *class.VolumeBindingMode, mode, storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer)
	}
	checkTopologies(&f, class.AllowedTopologies, field.NewPath("allowedTopologies"))
	if old != nil {
		f.Add(kind.Frozen(class.Provisioner, old.Provisioner, field.NewPath("provisioner")))
		f.Add(kind.Frozen(class.Parameters, old.Parameters, field.NewPath("parameters")))
		f.Add(kind.Frozen(class.ReclaimPolicy, old.ReclaimPolicy, field.NewPath("reclaimPolicy")))
		f.Add(kind.Frozen(class.VolumeBindingMode, old.VolumeBindingMode, mode))
	}
	return f.List
}

// checkParameters checks what a class tells its driver.
func checkParameters(f *kind.Findings, parameters map[string]string, at *field.Path) {
	size := 0
	for key, value := range parameters {
		f.Invalid(key == "", at, key, "field can not be empty.")
		size += len(key) + len(value)
	}
	if len(parameters) > 512 {
		f.List = append(f.List, field.TooLong(at, "", 512))
	}
	if size > 256<<10 {
		f.List = append(f.List, field.TooLong(at, "", 256<<10))
	}
}

func checkTopologies(f *kind.Findings, terms []corev1.TopologySelectorTerm, at *field.Path) {
	for i, term := range terms {
		keys := sets.New[string]()
		for j, e := range term.MatchLabelExpressions {
			here := at.Index(i).Child("matchLabelExpressions").Index(j)
			f.Need(len(e.Values) > 0, here.Child("values"))
			values := sets.New[string]()
			for k, value := range e.Values {
				f.Unique(value, values, here.Child("values").Index(k))
			}
			f.Add(metavalidation.ValidateLabelName(e.Key, here.Child("key")))
			f.Unique(e.Key, keys, here.Child("key"))
		}
		for _, other := range terms[:i] {
			if apiequality.Semantic.DeepEqual(other, term) {
				f.List = append(f.List, field.Duplicate(at.Index(i).Child("matchLabelExpressions"), ""))
				break
			}
		}
	}
}

func validateVolumeAttachmentStatus(attachment, _ *storagev1.VolumeAttachment) field.ErrorList {
	return attachmentStatus(&attachment.Status, field.NewPath("status"))
}
