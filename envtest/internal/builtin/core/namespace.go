// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	storeerr "k8s.io/apiserver/pkg/storage/errors"
	"k8s.io/apiserver/pkg/util/dryrun"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// A namespace leaves in two steps. The first DELETE sets deletionTimestamp and the phase Terminating. It is removed when
// both metadata.finalizers and spec.finalizers are empty; a namespace controller, or a test in its place, empties the
// latter through the finalize subresource. As with a bare kube-apiserver, nobody does so here by itself.

// defaultNamespace labels a namespace with its name.
func defaultNamespace(ns *corev1.Namespace) {
	if ns.Status.Phase == "" {
		ns.Status.Phase = corev1.NamespaceActive
	}
	if ns.Name == "" {
		return // generateName: prepareNamespace does it
	}
	if ns.Labels == nil {
		ns.Labels = map[string]string{}
	}
	ns.Labels[corev1.LabelMetadataName] = ns.Name
}

// prepareNamespace adds the kubernetes finalizer on create and keeps spec.finalizers on update.
func prepareNamespace(_ context.Context, ns, old *corev1.Namespace) {
	if old != nil {
		ns.Spec.Finalizers = old.Spec.Finalizers
	} else {
		ns.Status = corev1.NamespaceStatus{}
		if !slices.Contains(ns.Spec.Finalizers, corev1.FinalizerKubernetes) {
			ns.Spec.Finalizers = append(ns.Spec.Finalizers, corev1.FinalizerKubernetes)
		}
	}
	defaultNamespace(ns)
}

// attachNamespace replaces the main resource and adds the finalize subresource.
func attachNamespace(a *kind.Served) (map[string]rest.Storage, error) {
	a.Store.ShouldDeleteDuringUpdate = func(ctx context.Context, key string, obj, existing runtime.Object) bool {
		ns := kind.MustBe[*corev1.Namespace](obj)
		return len(ns.Spec.Finalizers) == 0 && genericregistry.ShouldDeleteDuringUpdate(ctx, key, obj, existing)
	}
	return map[string]rest.Storage{
		"":         namespaceREST{store: kind.ResourceREST{Store: a.Store, Kind: a.Kind}},
		"finalize": finalizeREST{part: kind.NewPartREST(a.Store, finalizeStrategy{a.Strategy})},
	}, nil
}

// finalizeStrategy lets the finalize subresource change spec.finalizers and nothing else of spec and status.
type finalizeStrategy struct{ kind.Strategy }

func (s finalizeStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	kind.CopyStatus(obj, old)
}

func (s finalizeStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return kind.ResetFields(s.Kind, fieldpath.MakePathOrDie("status"))
}

// finalizeREST serves the finalize subresource, which can be updated but not read.
type finalizeREST struct{ part kind.PartREST }

var (
	_ rest.Updater             = finalizeREST{}
	_ rest.ResetFieldsStrategy = finalizeREST{}
)

func (r finalizeREST) New() runtime.Object { return r.part.New() }

// Destroy does nothing: the main resource owns the storage.
func (r finalizeREST) Destroy() {}

func (r finalizeREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return r.part.Update(ctx, name, info, create, update, forceAllowCreate, options)
}

func (r finalizeREST) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return r.part.GetResetFields()
}

// namespaceREST serves namespaces: all verbs of the store but deletecollection, and a DELETE of its own.
type namespaceREST struct{ store kind.ResourceREST }

var (
	_ rest.Creater                = namespaceREST{}
	_ rest.Patcher                = namespaceREST{}
	_ rest.Lister                 = namespaceREST{}
	_ rest.Watcher                = namespaceREST{}
	_ rest.GracefulDeleter        = namespaceREST{}
	_ rest.Scoper                 = namespaceREST{}
	_ rest.ShortNamesProvider     = namespaceREST{}
	_ rest.SingularNameProvider   = namespaceREST{}
	_ rest.StorageVersionProvider = namespaceREST{}
	_ rest.ResetFieldsStrategy    = namespaceREST{}
)

func (r namespaceREST) New() runtime.Object { return r.store.New() }

func (r namespaceREST) NewList() runtime.Object { return r.store.NewList() }

func (r namespaceREST) Destroy() { r.store.Destroy() }

func (r namespaceREST) NamespaceScoped() bool { return false }

func (r namespaceREST) ShortNames() []string { return r.store.ShortNames() }

func (r namespaceREST) GetSingularName() string { return r.store.GetSingularName() }

func (r namespaceREST) StorageVersion() runtime.GroupVersioner { return r.store.StorageVersion() }

func (r namespaceREST) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return r.store.GetResetFields()
}

func (r namespaceREST) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return r.store.Get(ctx, name, options)
}

func (r namespaceREST) List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error) {
	return r.store.List(ctx, options)
}

func (r namespaceREST) Watch(ctx context.Context, options *metainternalversion.ListOptions) (watch.Interface, error) {
	return r.store.Watch(ctx, options)
}

func (r namespaceREST) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	return r.store.Create(ctx, obj, validate, options)
}

func (r namespaceREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return r.store.Update(ctx, name, info, create, update, forceAllowCreate, options)
}

func (r namespaceREST) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	return r.store.ConvertToTable(ctx, obj, options)
}

// Delete marks the namespace as terminating, or removes it when nothing holds it any more.
func (r namespaceREST) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	ns, err := kind.GetOne[*corev1.Namespace](ctx, r, name)
	if err != nil {
		return nil, false, err
	}
	if options == nil {
		options = metav1.NewDeleteOptions(0)
	}
	if err := pinTo(ns, options); err != nil {
		return nil, false, err
	}
	if ns.DeletionTimestamp.IsZero() {
		out, err := r.terminate(ctx, ns, validate, options)
		return out, false, err
	}
	if len(ns.Spec.Finalizers) != 0 {
		return ns, false, nil
	}
	return r.store.Delete(ctx, name, validate, options)
}

// pinTo makes sure that options delete this very namespace and no later one of the same name.
func pinTo(ns *corev1.Namespace, options *metav1.DeleteOptions) error {
	if options.Preconditions == nil {
		options.Preconditions = &metav1.Preconditions{}
	}
	wanted := options.Preconditions
	if wanted.UID == nil {
		wanted.UID = &ns.UID
	}
	resource := corev1.Resource("namespaces")
	if *wanted.UID != ns.UID {
		return apierrors.NewConflict(resource, ns.Name,
			fmt.Errorf("precondition failed: UID in precondition: %v, UID in object meta: %v", *wanted.UID, ns.UID))
	}
	if wanted.ResourceVersion != nil && *wanted.ResourceVersion != ns.ResourceVersion {
		return apierrors.NewConflict(resource, ns.Name,
			fmt.Errorf("precondition failed: ResourceVersion in precondition: %v, ResourceVersion in object meta: %v",
				*wanted.ResourceVersion, ns.ResourceVersion))
	}
	return nil
}

// terminate writes the deletion timestamp, the phase and the finalizers that options ask for.
func (r namespaceREST) terminate(ctx context.Context, ns *corev1.Namespace, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, error) {
	key, err := r.store.KeyFunc(ctx, ns.Name)
	if err != nil {
		return nil, err
	}
	mark := func(existing runtime.Object) (runtime.Object, error) {
		ns := kind.MustBe[*corev1.Namespace](existing)
		if err := validate(ctx, ns); err != nil {
			return nil, err
		}
		if ns.DeletionTimestamp.IsZero() {
			now := metav1.Now()
			ns.DeletionTimestamp = &now
		}
		ns.Status.Phase = corev1.NamespaceTerminating
		setDependentFinalizers(ns, options)
		return ns, nil
	}
	out := r.store.New()
	wanted := &storage.Preconditions{UID: options.Preconditions.UID, ResourceVersion: options.Preconditions.ResourceVersion}
	err = r.store.Storage.GuaranteedUpdate(ctx, key, out, false, wanted, storage.SimpleUpdate(mark), dryrun.IsDryRun(options.DryRun), nil)
	if err != nil {
		resource := corev1.Resource("namespaces")
		return nil, storeerr.InterpretUpdateError(storeerr.InterpretGetError(err, resource, ns.Name), resource, ns.Name)
	}
	return out, nil
}

// setDependentFinalizers adds or removes the garbage collector's finalizers as the propagation policy says.
func setDependentFinalizers(ns *corev1.Namespace, options *metav1.DeleteOptions) {
	if options.PropagationPolicy == nil {
		return
	}
	for finalizer, policy := range map[string]metav1.DeletionPropagation{
		metav1.FinalizerOrphanDependents: metav1.DeletePropagationOrphan,
		metav1.FinalizerDeleteDependents: metav1.DeletePropagationForeground,
	} {
		ns.Finalizers = slices.DeleteFunc(ns.Finalizers, func(f string) bool { return f == finalizer })
		if *options.PropagationPolicy == policy {
			ns.Finalizers = append(ns.Finalizers, finalizer)
		}
	}
}
