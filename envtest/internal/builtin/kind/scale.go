// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"context"
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// scaling is how a kind with replicas shows them as a Scale.
type scaling struct {
	replicas func(obj runtime.Object) **int32               // the wanted number, to read and to set
	observed func(obj runtime.Object) int32                 // the number that its controller has seen
	selector func(obj runtime.Object) *metav1.LabelSelector // what selects the Pods
}

// ScalingOf makes a scaling from functions over the concrete type.
func ScalingOf[T runtime.Object](replicas func(T) **int32, observed func(T) int32, selector func(T) *metav1.LabelSelector) *scaling {
	return &scaling{
		replicas: func(obj runtime.Object) **int32 { return replicas(MustBe[T](obj)) },
		observed: func(obj runtime.Object) int32 { return observed(MustBe[T](obj)) },
		selector: func(obj runtime.Object) *metav1.LabelSelector { return selector(MustBe[T](obj)) },
	}
}

// scaleREST serves the scale subresource as autoscaling/v1 Scale. It shares the storage of the main resource.
type scaleREST struct {
	store *Store
	kind  *Kind
}

var (
	_ rest.Patcher                  = scaleREST{}
	_ rest.GroupVersionKindProvider = scaleREST{}
)

// GroupVersionKind is the same for every kind.
func (r scaleREST) GroupVersionKind(schema.GroupVersion) schema.GroupVersionKind {
	return autoscalingv1.SchemeGroupVersion.WithKind("Scale")
}

func (r scaleREST) New() runtime.Object { return &autoscalingv1.Scale{} }

// Destroy does nothing: the main resource owns the storage.
func (r scaleREST) Destroy() {}

func (r scaleREST) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	obj, err := r.store.Get(ctx, name, options)
	if err != nil {
		return nil, err
	}
	return r.kind.scaleOf(obj)
}

// Update writes spec.replicas through the main resource's strategy and answers with the new Scale.
func (r scaleREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	obj, _, err := r.store.Update(ctx, name, scaleUpdate{UpdatedObjectInfo: info, kind: r.kind},
		r.validateCreate(create), r.validateUpdate(update), false, options)
	if err != nil {
		return nil, false, err
	}
	scale, err := r.kind.scaleOf(obj)
	return scale, false, err
}

// ConvertToTable shows name and age.
func (r scaleREST) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	return rest.NewDefaultTableConvertor(r.kind.GroupResource()).ConvertToTable(ctx, obj, options)
}

// validateCreate shows admission the Scale instead of the object.
func (r scaleREST) validateCreate(validate rest.ValidateObjectFunc) rest.ValidateObjectFunc {
	return func(ctx context.Context, obj runtime.Object) error {
		scale, err := r.kind.scaleOf(obj)
		if err != nil {
			return err
		}
		return validate(ctx, scale)
	}
}

// validateUpdate shows admission the Scales instead of the objects.
func (r scaleREST) validateUpdate(validate rest.ValidateObjectUpdateFunc) rest.ValidateObjectUpdateFunc {
	return func(ctx context.Context, obj, old runtime.Object) error {
		scale, err := r.kind.scaleOf(obj)
		if err != nil {
			return err
		}
		was, err := r.kind.scaleOf(old)
		if err != nil {
			return err
		}
		return validate(ctx, scale, was)
	}
}

// scaleOf shows an object of this kind as a Scale.
func (k *Kind) scaleOf(obj runtime.Object) (*autoscalingv1.Scale, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	selector, err := metav1.LabelSelectorAsSelector(k.Scale.selector(obj))
	if err != nil {
		return nil, fmt.Errorf("the selector of %s %s/%s: %w", k.GVK.Kind, m.GetNamespace(), m.GetName(), err)
	}
	scale := &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{
			Name:              m.GetName(),
			Namespace:         m.GetNamespace(),
			UID:               m.GetUID(),
			ResourceVersion:   m.GetResourceVersion(),
			CreationTimestamp: m.GetCreationTimestamp(),
		},
		Status: autoscalingv1.ScaleStatus{Replicas: k.Scale.observed(obj), Selector: selector.String()},
	}
	if replicas := *k.Scale.replicas(obj); replicas != nil {
		scale.Spec.Replicas = *replicas
	}
	return scale, nil
}

// scaleUpdate turns an update of a Scale into one of the object that it stands for.
type scaleUpdate struct {
	rest.UpdatedObjectInfo
	kind *Kind
}

// Preconditions are empty: UpdatedObject checks the UID of the Scale, the storage the resourceVersion.
func (u scaleUpdate) Preconditions() *metav1.Preconditions { return nil }

// UpdatedObject shows old as a Scale, lets the request change it, and returns a copy of old with the new replicas.
func (u scaleUpdate) UpdatedObject(ctx context.Context, old runtime.Object) (runtime.Object, error) {
	obj := old.DeepCopyObject()
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	was, err := u.kind.scaleOf(obj)
	if err != nil {
		return nil, err
	}
	version := u.kind.GVK.GroupVersion().String()
	owners := managedfields.NewScaleHandler(m.GetManagedFields(), u.kind.GVK.GroupVersion(),
		managedfields.ResourcePathMappings{version: fieldpath.MakePathOrDie("spec", "replicas")})
	if was.ManagedFields, err = owners.ToSubresource(); err != nil {
		return nil, err
	}
	scale, err := u.changed(ctx, was)
	if err != nil {
		return nil, err
	}
	replicas := scale.Spec.Replicas
	*u.kind.Scale.replicas(obj) = &replicas
	m.SetResourceVersion(scale.ResourceVersion)
	fields, err := owners.ToParent(scale.ManagedFields)
	if err != nil {
		return nil, err
	}
	m.SetManagedFields(fields)
	return obj, nil
}

// changed returns the Scale after the request, checked.
func (u scaleUpdate) changed(ctx context.Context, was *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
	obj, err := u.UpdatedObjectInfo.UpdatedObject(ctx, was)
	if err != nil {
		return nil, err
	}
	scale, ok := obj.(*autoscalingv1.Scale)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("expected a Scale of autoscaling/v1, got %T", obj))
	}
	if scale.Spec.Replicas < 0 {
		errs := field.ErrorList{field.Invalid(field.NewPath("spec", "replicas"), scale.Spec.Replicas, "must be greater than or equal to 0")}
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: autoscalingv1.GroupName, Kind: "Scale"}, was.Name, errs)
	}
	if scale.UID != "" && scale.UID != was.UID {
		return nil, apierrors.NewConflict(u.kind.GroupResource(), was.Name,
			fmt.Errorf("precondition failed: the UID in the request is %s, that of the object %s", scale.UID, was.UID))
	}
	return scale, nil
}
