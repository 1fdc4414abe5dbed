// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// priorityClasses is the plugin Priority. A Pod is given the class that was created just before it.
type priorityClasses struct{ store *kind.Store }

// prioritize resolves the priority class of a new Pod. A PUT of a manifest without the result gets it again.
func (p priorityClasses) prioritize(ctx context.Context, a admission.Attributes) error {
	spec := &kind.MustBe[*corev1.Pod](a.GetObject()).Spec
	if a.GetOperation() == admission.Update {
		old := &kind.MustBe[*corev1.Pod](a.GetOldObject()).Spec
		if spec.Priority == nil {
			spec.Priority = old.Priority
		}
		if spec.PreemptionPolicy == nil {
			spec.PreemptionPolicy = old.PreemptionPolicy
		}
		return nil
	}
	class, err := p.classOf(ctx, a, spec.PriorityClassName)
	if err != nil {
		return err
	}
	if spec.Priority != nil && *spec.Priority != class.Value {
		return admission.NewForbidden(a, fmt.Errorf("the integer value of priority (%d) must not be provided in pod spec; "+
			"priority admission controller computed %d from the given PriorityClass name", *spec.Priority, class.Value))
	}
	policy := class.PreemptionPolicy
	if spec.PreemptionPolicy != nil && policy != nil && *spec.PreemptionPolicy != *policy {
		return admission.NewForbidden(a, fmt.Errorf("the string value of PreemptionPolicy (%s) must not be provided in pod spec; "+
			"priority admission controller computed %s from the given PriorityClass name", *spec.PreemptionPolicy, *policy))
	}
	spec.PriorityClassName, spec.Priority = class.Name, &class.Value
	if policy != nil {
		own := *policy // a watch cache may share the class
		spec.PreemptionPolicy = &own
	}
	return nil
}

// classOf returns the class of a name, or the default one for Pods without a class. The caller does not change what its
// pointers lead to.
func (p priorityClasses) classOf(ctx context.Context, a admission.Attributes, name string) (*schedulingv1.PriorityClass, error) {
	if name == "" {
		class, err := p.defaultClass(ctx)
		if class == nil && err == nil {
			policy := corev1.PreemptLowerPriority
			class = &schedulingv1.PriorityClass{PreemptionPolicy: &policy}
		}
		return class, err
	}
	found, err := kind.Cached[*schedulingv1.PriorityClass](ctx, p.store, name)
	if apierrors.IsNotFound(err) {
		return nil, admission.NewForbidden(a, fmt.Errorf("no PriorityClass with name %v was found", name))
	}
	if err != nil {
		return nil, fmt.Errorf("look up the priority class %s of pod %s/%s: %w", name, a.GetNamespace(), a.GetName(), err)
	}
	return found, nil
}

// defaultClass returns the class that is marked as the default, nil if there is none. Two clients may have marked one each at
// the same time; the lower one counts.
func (p priorityClasses) defaultClass(ctx context.Context) (*schedulingv1.PriorityClass, error) {
	classes, err := kind.ListAll[*schedulingv1.PriorityClassList](ctx, p.store)
	if err != nil {
		return nil, fmt.Errorf("look up the default priority class: %w", err)
	}
	var lowest *schedulingv1.PriorityClass
	for i := range classes.Items {
		if class := &classes.Items[i]; class.GlobalDefault && (lowest == nil || class.Value < lowest.Value) {
			lowest = class
		}
	}
	return lowest, nil
}

// checkDefault refuses a second default.
func (p priorityClasses) checkDefault(ctx context.Context, a admission.Attributes) error {
	class := kind.MustBe[*schedulingv1.PriorityClass](a.GetObject())
	if !class.GlobalDefault {
		return nil
	}
	existing, err := p.defaultClass(ctx)
	if err != nil || existing == nil || a.GetOperation() == admission.Update && existing.Name == class.Name {
		return err
	}
	return admission.NewForbidden(a, fmt.Errorf("PriorityClass %v is already marked as default. Only one default can exist", existing.Name))
}
