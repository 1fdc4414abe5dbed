// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// statusStrategy is the update strategy of the status subresource: it keeps the stored desired state.
type statusStrategy struct{ Strategy }

// NewStatusStrategy returns the strategy for the status subresource of s's kind.
func NewStatusStrategy(s Strategy) statusStrategy { return statusStrategy{s} }

var (
	_ rest.RESTUpdateStrategy  = statusStrategy{}
	_ rest.ResetFieldsStrategy = statusStrategy{}
)

// AllowCreateOnUpdate is false: a status belongs to an object that exists.
func (s statusStrategy) AllowCreateOnUpdate(context.Context) bool { return false }

// PrepareForUpdate takes the status from the request and the rest from storage.
func (s statusStrategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	copyDesired(obj, old)
	for _, path := range s.Kind.Rules.StatusKeeps {
		keepMeta(obj.(metav1.Object), old.(metav1.Object), path)
	}
	if s.Kind.Hooks.PrepareStatus != nil {
		s.Kind.Hooks.PrepareStatus(ctx, obj, old)
	}
}

// keepMeta gives obj a part of the metadata of old: all of it but for the names that old has anyway and the managed fields,
// or one of its fields.
func keepMeta(obj, old metav1.Object, path string) {
	switch path {
	case "metadata":
		metav1.ResetObjectMetaForStatus(obj, old)
	case "metadata.labels":
		obj.SetLabels(old.GetLabels())
	case "metadata.ownerReferences":
		obj.SetOwnerReferences(old.GetOwnerReferences())
	case "metadata.deletionTimestamp":
		obj.SetDeletionTimestamp(old.GetDeletionTimestamp())
	default:
		panic("builtin: the table names " + path + ", which no status keeps")
	}
}

// ValidateUpdate asks the row about the status: metadata is checked by the generic store, and the desired state is unchanged.
func (s statusStrategy) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	errs := s.validateFinalizers(obj)
	if s.Kind.Hooks.ValidateStatus != nil {
		errs = append(errs, s.Kind.Hooks.ValidateStatus(obj, old)...)
	}
	return errs
}

// WarningsOnUpdate asks the row about the status.
func (s statusStrategy) WarningsOnUpdate(_ context.Context, obj, old runtime.Object) []string {
	if s.Kind.Warn.Status == nil {
		return nil
	}
	return s.Kind.Warn.Status(obj, old)
}

// GetResetFields names the whole desired state, and the metadata that is kept.
func (s statusStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	obj, err := s.scheme.New(s.Kind.GVK)
	if err != nil {
		return nil
	}
	var paths []fieldpath.Path
	for _, name := range desiredNames(obj) {
		paths = append(paths, fieldpath.MakePathOrDie(name))
	}
	for _, path := range s.Kind.Rules.StatusKeeps {
		var elements []any
		for _, name := range strings.Split(path, ".") {
			elements = append(elements, name)
		}
		paths = append(paths, fieldpath.MakePathOrDie(elements...))
	}
	return ResetFields(s.Kind, paths...)
}

// PartREST serves a subresource that reads and writes the whole object through a strategy of its own, as status does. It
// shares the storage of the main resource, which the main resource destroys.
type PartREST struct{ store *genericregistry.Store }

var (
	_ rest.Patcher             = PartREST{}
	_ rest.ResetFieldsStrategy = PartREST{}
	_ rest.TableConvertor      = PartREST{}
)

// NewPartREST returns a subresource of store's objects that is updated through s.
func NewPartREST(store *Store, s interface {
	rest.RESTUpdateStrategy
	rest.ResetFieldsStrategy
}) PartREST {
	part := *store.Store
	part.BeginCreate, part.BeginUpdate = nil, nil // they work on what a part does not write
	part.UpdateStrategy = s
	part.ResetFieldsStrategy = s
	return PartREST{store: &part}
}

func (r PartREST) New() runtime.Object { return r.store.New() }

// Destroy does nothing: the main resource owns the storage.
func (r PartREST) Destroy() {}

func (r PartREST) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return r.store.Get(ctx, name, options)
}

// Update ignores forceAllowCreate: a subresource never creates.
func (r PartREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return r.store.Update(ctx, name, info, create, update, false, options)
}

func (r PartREST) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return r.store.ResetFieldsStrategy.GetResetFields()
}

func (r PartREST) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	return r.store.ConvertToTable(ctx, obj, options)
}
