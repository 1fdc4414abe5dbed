// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"context"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Strategy is the create, update and delete strategy of every built-in kind; its row says what is special. It holds no
// state of its own and may be used from many goroutines.
type Strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
	Kind   *Kind
	scheme *runtime.Scheme
}

var (
	_ rest.RESTCreateStrategy              = Strategy{}
	_ rest.RESTUpdateStrategy              = Strategy{}
	_ rest.RESTGracefulDeleteStrategy      = Strategy{}
	_ rest.GarbageCollectionDeleteStrategy = Strategy{}
	_ rest.ResetFieldsStrategy             = Strategy{}
)

// NewStrategy returns the strategy for the main resource of k, whose types the scheme knows.
func NewStrategy(k *Kind, scheme *runtime.Scheme) Strategy {
	return Strategy{ObjectTyper: scheme, NameGenerator: names.SimpleNameGenerator, Kind: k, scheme: scheme}
}

func (s Strategy) NamespaceScoped() bool { return !s.Kind.Cluster }

func (s Strategy) AllowCreateOnUpdate(context.Context) bool { return s.Kind.Rules.PutCreates }

func (s Strategy) AllowUnconditionalUpdate(context.Context) bool { return !s.Kind.Rules.NeedVersion }

// Canonicalize drops from a valid object what is not to be stored.
func (s Strategy) Canonicalize(obj runtime.Object) {
	if s.Kind.Hooks.Drop != nil {
		s.Kind.Hooks.Drop(obj)
	}
}

func (s Strategy) WarningsOnCreate(ctx context.Context, obj runtime.Object) []string {
	return s.WarningsOnUpdate(ctx, obj, nil)
}

// WarningsOnUpdate asks the row.
func (s Strategy) WarningsOnUpdate(_ context.Context, obj, old runtime.Object) []string {
	if s.Kind.Warn.Object == nil {
		return nil
	}
	return s.Kind.Warn.Object(obj, old)
}

// PrepareForCreate drops the status that a client sent and starts the generation.
func (s Strategy) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	if s.Kind.Rules.Status && !s.Kind.Rules.KeepStatus {
		clearStatus(obj)
	}
	if s.Kind.Rules.Generation {
		setGeneration(obj, 1)
	}
	if s.Kind.Hooks.Prepare != nil {
		s.Kind.Hooks.Prepare(ctx, obj, nil)
	}
}

// PrepareForUpdate keeps the stored status and counts a changed desired state.
func (s Strategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	if s.Kind.Rules.Status {
		CopyStatus(obj, old)
	}
	if s.Kind.Hooks.Prepare != nil {
		s.Kind.Hooks.Prepare(ctx, obj, old)
	}
	if s.Kind.Rules.Generation && (!sameDesired(obj, old) || s.metadataCounts(obj, old)) {
		setGeneration(obj, generationOf(old)+1)
	}
}

// metadataCounts reports whether metadata changed that counts for the generation of this kind.
func (s Strategy) metadataCounts(obj, old runtime.Object) bool {
	m, err := meta.Accessor(obj)
	if err != nil {
		return false
	}
	was, err := meta.Accessor(old)
	if err != nil {
		return false
	}
	return s.Kind.Rules.CountsLabels && !apiequality.Semantic.DeepEqual(m.GetLabels(), was.GetLabels()) ||
		s.Kind.Rules.CountsAnnotations && !apiequality.Semantic.DeepEqual(m.GetAnnotations(), was.GetAnnotations())
}

// Validate checks metadata and what the row asks for.
func (s Strategy) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	errs := s.ValidateMeta(obj)
	if s.Kind.Hooks.Validate != nil {
		errs = append(errs, s.Kind.Hooks.Validate(obj, nil)...)
	}
	if s.Kind.Hooks.ValidateRequest != nil {
		errs = append(errs, s.Kind.Hooks.ValidateRequest(ctx, obj, nil)...)
	}
	return errs
}

// ValidateUpdate checks what the row asks for; the metadata of an update is checked by the generic store.
func (s Strategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	errs := s.validateFinalizers(obj)
	if s.Kind.Hooks.Validate != nil {
		errs = append(errs, s.Kind.Hooks.Validate(obj, old)...)
	}
	if s.Kind.Hooks.ValidateRequest != nil {
		errs = append(errs, s.Kind.Hooks.ValidateRequest(ctx, obj, old)...)
	}
	return errs
}

// validateFinalizers wants the domain of whoever removes a finalizer in its name.
func (s Strategy) validateFinalizers(obj runtime.Object) field.ErrorList {
	m, err := meta.Accessor(obj)
	if err != nil || s.Kind.Rules.AnyFinalizers {
		return nil
	}
	var f Findings
	f.Finalizers(m.GetFinalizers())
	return f.List
}

// ValidateMeta checks name, namespace, labels, annotations, owner references and finalizers.
func (s Strategy) ValidateMeta(obj runtime.Object) field.ErrorList {
	m, err := meta.Accessor(obj)
	if err != nil {
		return field.ErrorList{field.InternalError(field.NewPath("metadata"), err)}
	}
	if s.Kind.Rules.AnyMeta {
		return nil
	}
	rule := s.Kind.Rules.Names
	if rule == nil {
		rule = apivalidation.NameIsDNSSubdomain
	}
	errs := apivalidation.ValidateObjectMetaAccessor(m, !s.Kind.Cluster, apivalidation.ValidateNameFunc(rule), field.NewPath("metadata"))
	return append(errs, s.validateFinalizers(obj)...)
}

// CheckGracefulDelete asks the row; most kinds are deleted at once.
func (s Strategy) CheckGracefulDelete(_ context.Context, obj runtime.Object, options *metav1.DeleteOptions) bool {
	return s.Kind.Hooks.Grace != nil && s.Kind.Hooks.Grace(obj, options)
}

// DefaultGarbageCollectionPolicy is what a DELETE without a propagation policy does to dependents.
func (s Strategy) DefaultGarbageCollectionPolicy(context.Context) rest.GarbageCollectionPolicy {
	switch {
	case s.Kind.Rules.NoFinalizers:
		return rest.Unsupported
	case s.Kind.Rules.Orphans:
		return rest.OrphanDependents
	default:
		return rest.DeleteDependents
	}
}

// GetResetFields names the fields that a write to the main resource never changes, so that server-side apply does not
// give the writer the ownership of them.
func (s Strategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	if !s.Kind.Rules.Status {
		return nil
	}
	paths := []fieldpath.Path{fieldpath.MakePathOrDie("status")}
	if s.Kind.Rules.OwnsSpec {
		paths = append(paths, fieldpath.MakePathOrDie("spec"))
	}
	return ResetFields(s.Kind, paths...)
}

// ResetFields builds the answer to GetResetFields for the row's version.
func ResetFields(k *Kind, paths ...fieldpath.Path) map[fieldpath.APIVersion]*fieldpath.Set {
	return map[fieldpath.APIVersion]*fieldpath.Set{
		fieldpath.APIVersion(k.GVK.GroupVersion().String()): fieldpath.NewSet(paths...),
	}
}

// generationOf returns metadata.generation.
func generationOf(obj runtime.Object) int64 {
	m, err := meta.Accessor(obj)
	if err != nil {
		return 0
	}
	return m.GetGeneration()
}

// setGeneration sets metadata.generation.
func setGeneration(obj runtime.Object, generation int64) {
	if m, err := meta.Accessor(obj); err == nil {
		m.SetGeneration(generation)
	}
}
