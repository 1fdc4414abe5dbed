// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	storeerr "k8s.io/apiserver/pkg/storage/errors"
	"k8s.io/apiserver/pkg/util/dryrun"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// bindingREST serves pods/binding, through which a scheduler puts a Pod on a node.
type bindingREST struct{ store *kind.Store }

var _ rest.NamedCreater = bindingREST{}

func (r bindingREST) New() runtime.Object { return &corev1.Binding{} }

// Destroy does nothing: the main resource owns the storage.
func (r bindingREST) Destroy() {}

// Create sets the Pod's node. A Pod that has a node, is going, or is gated answers with a conflict.
func (r bindingREST) Create(ctx context.Context, name string, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	binding, ok := obj.(*corev1.Binding)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a Binding object: %T", obj))
	}
	if binding.Name != name {
		return nil, apierrors.NewBadRequest("name in URL does not match name in Binding object")
	}
	if errs := validateBinding(binding); len(errs) > 0 {
		return nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Binding").GroupKind(), name, errs)
	}
	if validate != nil {
		if err := validate(ctx, binding.DeepCopy()); err != nil {
			return nil, err
		}
	}
	if err := r.assign(ctx, binding, dryrun.IsDryRun(options.DryRun)); err != nil {
		return nil, err
	}
	return &metav1.Status{Status: metav1.StatusSuccess}, nil
}

func validateBinding(binding *corev1.Binding) field.ErrorList {
	var errs field.ErrorList
	target := field.NewPath("target")
	if binding.Target.Kind != "" && binding.Target.Kind != "Node" {
		errs = append(errs, field.NotSupported(target.Child("kind"), binding.Target.Kind, []string{"Node", "<empty>"}))
	}
	if binding.Target.Name == "" {
		errs = append(errs, field.Required(target.Child("name"), ""))
	}
	return errs
}

// assign writes the node and what goes with it.
func (r bindingREST) assign(ctx context.Context, binding *corev1.Binding, dryRun bool) error {
	key, err := r.store.KeyFunc(ctx, binding.Name)
	if err != nil {
		return err
	}
	update := func(existing runtime.Object) (runtime.Object, error) {
		pod := kind.MustBe[*corev1.Pod](existing)
		if err := bindable(pod); err != nil {
			return nil, err
		}
		pod.Spec.NodeName = binding.Target.Name
		pod.Status.NominatedNodeName = ""
		pod.Annotations = kind.Merged(pod.Annotations, binding.Annotations)
		pod.Labels = kind.Merged(pod.Labels, binding.Labels)
		setPodCondition(&pod.Status, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue})
		return pod, nil
	}
	err = r.store.Storage.GuaranteedUpdate(ctx, key, &corev1.Pod{}, false, preconditionsOf(binding), storage.SimpleUpdate(update), dryRun, nil)
	if err == nil {
		return nil
	}
	err = storeerr.InterpretUpdateError(storeerr.InterpretGetError(err, corev1.Resource("pods"), binding.Name), corev1.Resource("pods"), binding.Name)
	if status := apierrors.APIStatus(nil); !errors.As(err, &status) {
		err = apierrors.NewConflict(corev1.Resource("pods/binding"), binding.Name, err)
	}
	return err
}

// bindable says why a Pod cannot be put on a node.
func bindable(pod *corev1.Pod) error {
	switch {
	case pod.DeletionTimestamp != nil:
		return fmt.Errorf("pod %s is being deleted, cannot be assigned to a host", pod.Name)
	case pod.Spec.NodeName != "":
		return fmt.Errorf("pod %v is already assigned to node %q", pod.Name, pod.Spec.NodeName)
	case len(pod.Spec.SchedulingGates) > 0:
		return fmt.Errorf("pod %v has non-empty .spec.schedulingGates", pod.Name)
	}
	return nil
}

// preconditionsOf returns what a binding says about its Pod, or nil.
func preconditionsOf(binding *corev1.Binding) *storage.Preconditions {
	wanted := &storage.Preconditions{}
	if uid := binding.UID; uid != types.UID("") {
		wanted.UID = &uid
	}
	if version := binding.ResourceVersion; version != "" {
		wanted.ResourceVersion = &version
	}
	return wanted
}

// setPodCondition sets one condition, and the time if its status changed.
func setPodCondition(status *corev1.PodStatus, condition corev1.PodCondition) {
	condition.LastTransitionTime = metav1.Now()
	for i := range status.Conditions {
		was := &status.Conditions[i]
		if was.Type != condition.Type {
			continue
		}
		if was.Status == condition.Status {
			condition.LastTransitionTime = was.LastTransitionTime
		}
		*was = condition
		return
	}
	status.Conditions = append(status.Conditions, condition)
}
