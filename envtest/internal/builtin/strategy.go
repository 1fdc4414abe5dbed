// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

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

// strategy is the create, update and delete strategy of every built-in kind; its row says what is special. It holds no
// state of its own and may be used from many goroutines.
type strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
	kind   *kind
	scheme *runtime.Scheme
}

var (
	_ rest.RESTCreateStrategy              = strategy{}
	_ rest.RESTUpdateStrategy              = strategy{}
	_ rest.RESTGracefulDeleteStrategy      = strategy{}
	_ rest.GarbageCollectionDeleteStrategy = strategy{}
	_ rest.ResetFieldsStrategy             = strategy{}
)

// newStrategy returns the strategy for the main resource of k, whose types the scheme knows.
func newStrategy(k *kind, scheme *runtime.Scheme) strategy {
	return strategy{ObjectTyper: scheme, NameGenerator: names.SimpleNameGenerator, kind: k, scheme: scheme}
}

func (s strategy) NamespaceScoped() bool { return !s.kind.cluster }

func (s strategy) AllowCreateOnUpdate(context.Context) bool { return s.kind.rules.putCreates }

func (s strategy) AllowUnconditionalUpdate(context.Context) bool { return !s.kind.rules.needVersion }

// Canonicalize drops what an object that is right keeps no longer.
func (s strategy) Canonicalize(obj runtime.Object) {
	if s.kind.hooks.drop != nil {
		s.kind.hooks.drop(obj)
	}
}

func (s strategy) WarningsOnCreate(ctx context.Context, obj runtime.Object) []string {
	return s.WarningsOnUpdate(ctx, obj, nil)
}

// WarningsOnUpdate asks the row.
func (s strategy) WarningsOnUpdate(_ context.Context, obj, old runtime.Object) []string {
	if s.kind.warn.object == nil {
		return nil
	}
	return s.kind.warn.object(obj, old)
}

// PrepareForCreate drops the status that a client sent and starts the generation.
func (s strategy) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	dropDisabled(obj)
	if s.kind.rules.status && !s.kind.rules.keepStatus {
		clearStatus(obj)
	}
	if s.kind.rules.generation {
		setGeneration(obj, 1)
	}
	if s.kind.hooks.prepare != nil {
		s.kind.hooks.prepare(ctx, obj, nil)
	}
}

// PrepareForUpdate keeps the stored status and counts a changed desired state.
func (s strategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	dropDisabled(obj)
	if s.kind.rules.status {
		copyStatus(obj, old)
	}
	if s.kind.hooks.prepare != nil {
		s.kind.hooks.prepare(ctx, obj, old)
	}
	if s.kind.rules.generation && (!sameDesired(obj, old) || s.metadataCounts(obj, old)) {
		setGeneration(obj, generationOf(old)+1)
	}
}

// metadataCounts reports whether metadata changed that counts for the generation of this kind.
func (s strategy) metadataCounts(obj, old runtime.Object) bool {
	m, err := meta.Accessor(obj)
	if err != nil {
		return false
	}
	was, err := meta.Accessor(old)
	if err != nil {
		return false
	}
	return s.kind.rules.countsLabels && !apiequality.Semantic.DeepEqual(m.GetLabels(), was.GetLabels()) ||
		s.kind.rules.countsAnnotations && !apiequality.Semantic.DeepEqual(m.GetAnnotations(), was.GetAnnotations())
}

// Validate checks metadata and what the row asks for.
func (s strategy) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	errs := s.validateMeta(obj)
	if s.kind.hooks.validate != nil {
		errs = append(errs, s.kind.hooks.validate(obj, nil)...)
	}
	if s.kind.hooks.validateRequest != nil {
		errs = append(errs, s.kind.hooks.validateRequest(ctx, obj, nil)...)
	}
	return errs
}

// ValidateUpdate checks what the row asks for; the metadata of an update is checked by the generic store.
func (s strategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	errs := s.validateFinalizers(obj)
	if s.kind.hooks.validate != nil {
		errs = append(errs, s.kind.hooks.validate(obj, old)...)
	}
	if s.kind.hooks.validateRequest != nil {
		errs = append(errs, s.kind.hooks.validateRequest(ctx, obj, old)...)
	}
	return errs
}

// validateFinalizers wants the domain of whoever removes a finalizer in its name.
func (s strategy) validateFinalizers(obj runtime.Object) field.ErrorList {
	m, err := meta.Accessor(obj)
	if err != nil || s.kind.rules.anyFinalizers {
		return nil
	}
	var f faults
	f.finalizers(m.GetFinalizers())
	return f.list
}

// validateMeta checks name, namespace, labels, annotations, owner references and finalizers.
func (s strategy) validateMeta(obj runtime.Object) field.ErrorList {
	m, err := meta.Accessor(obj)
	if err != nil {
		return field.ErrorList{field.InternalError(field.NewPath("metadata"), err)}
	}
	if s.kind.rules.anyMeta {
		return nil
	}
	rule := s.kind.rules.names
	if rule == nil {
		rule = apivalidation.NameIsDNSSubdomain
	}
	errs := apivalidation.ValidateObjectMetaAccessor(m, !s.kind.cluster, apivalidation.ValidateNameFunc(rule), field.NewPath("metadata"))
	return append(errs, s.validateFinalizers(obj)...)
}

// CheckGracefulDelete asks the row; most kinds are deleted at once.
func (s strategy) CheckGracefulDelete(_ context.Context, obj runtime.Object, options *metav1.DeleteOptions) bool {
	return s.kind.hooks.grace != nil && s.kind.hooks.grace(obj, options)
}

// DefaultGarbageCollectionPolicy is what a DELETE without a propagation policy does to dependents.
func (s strategy) DefaultGarbageCollectionPolicy(context.Context) rest.GarbageCollectionPolicy {
	switch {
	case s.kind.rules.noFinalizers:
		return rest.Unsupported
	case s.kind.rules.orphans:
		return rest.OrphanDependents
	default:
		return rest.DeleteDependents
	}
}

// GetResetFields names the fields that a write to the main resource never changes, so that server-side apply does not
// give the writer the ownership of them.
func (s strategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	if !s.kind.rules.status {
		return nil
	}
	paths := []fieldpath.Path{fieldpath.MakePathOrDie("status")}
	if s.kind.rules.ownsSpec {
		paths = append(paths, fieldpath.MakePathOrDie("spec"))
	}
	return resetFields(s.kind, paths...)
}

// resetFields builds the answer to GetResetFields for the row's version.
func resetFields(k *kind, paths ...fieldpath.Path) map[fieldpath.APIVersion]*fieldpath.Set {
	return map[fieldpath.APIVersion]*fieldpath.Set{
		fieldpath.APIVersion(k.gvk.GroupVersion().String()): fieldpath.NewSet(paths...),
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
