// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
)

// The rules are those of kube-apiserver's plugin/pkg/admission/priority, pkg/apis/scheduling and
// pkg/registry/scheduling/priorityclass.

const (
	// highestUserPriority is the highest priority of a class that is not the system's own.
	highestUserPriority = 1000000000
	// systemPriority is above all of them, and leaves room below.
	systemPriority = 2 * highestUserPriority
	// systemPrefix begins the names of the system's own classes.
	systemPrefix = "system-"
)

// priorityClassResource is where the priority classes are.
var priorityClassResource = schedulingv1.Resource("priorityclasses")

// SystemPriorityClasses returns the classes that every server has. They belong to the caller.
func SystemPriorityClasses() []*schedulingv1.PriorityClass {
	return []*schedulingv1.PriorityClass{
		{
			ObjectMeta:  metav1.ObjectMeta{Name: "system-node-critical"},
			Value:       systemPriority + 1000,
			Description: "Used for system critical pods that must not be moved from their current node.",
		},
		{
			ObjectMeta:  metav1.ObjectMeta{Name: "system-cluster-critical"},
			Value:       systemPriority,
			Description: "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
		},
	}
}

// systemPriorityClass finds one of them by its name, or returns nil.
func systemPriorityClass(name string) *schedulingv1.PriorityClass {
	for _, class := range SystemPriorityClasses() {
		if class.Name == name {
			return class
		}
	}
	return nil
}

func validatePriorityClass(class, old *schedulingv1.PriorityClass) field.ErrorList {
	if old != nil {
		errs := frozen(class.PreemptionPolicy, old.PreemptionPolicy, field.NewPath("preemptionPolicy"))
		if class.Value != old.Value {
			errs = append(errs, field.Forbidden(field.NewPath("value"), "may not be changed in an update."))
		}
		return errs
	}
	var errs field.ErrorList
	if class.PreemptionPolicy != nil {
		f := faults{}
		choice(&f, *class.PreemptionPolicy, field.NewPath("preemptionPolicy"), corev1.PreemptLowerPriority, corev1.PreemptNever)
		errs = f.list
	}
	if strings.HasPrefix(class.Name, systemPrefix) {
		if wrong := notSystem(class); wrong != "" {
			errs = append(errs, field.Forbidden(field.NewPath("metadata", "name"),
				"priority class names with '"+systemPrefix+"' prefix are reserved for system use only. error: "+wrong))
		}
	} else if class.Value > highestUserPriority {
		errs = append(errs, field.Forbidden(field.NewPath("value"), fmt.Sprintf("maximum allowed value of a user defined priority is %v", highestUserPriority)))
	}
	return errs
}

// notSystem says in what a class differs from the system's own of its name.
func notSystem(class *schedulingv1.PriorityClass) string {
	switch system := systemPriorityClass(class.Name); {
	case system == nil:
		return class.Name + " is not a known system priority class"
	case class.Value != system.Value:
		return fmt.Sprintf("value of %v PriorityClass must be %v", class.Name, system.Value)
	case class.GlobalDefault:
		return fmt.Sprintf("globalDefault of %v PriorityClass must be %v", class.Name, system.GlobalDefault)
	}
	return ""
}

// priorityClassREST serves priority classes. The system's own cannot be deleted, unless all are at once.
type priorityClassREST struct{ resourceREST }

func (r priorityClassREST) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	if systemPriorityClass(name) != nil {
		return nil, false, apierrors.NewForbidden(priorityClassResource, name, errors.New("this is a system priority class and cannot be deleted"))
	}
	return r.resourceREST.Delete(ctx, name, validate, options)
}

// attachPriorityClass replaces the main resource.
func attachPriorityClass(a *attachment) (map[string]rest.Storage, error) {
	return map[string]rest.Storage{"": priorityClassREST{resourceREST{Store: a.store, kind: a.kind}}}, nil
}

// priorityClasses is the plugin Priority. A Pod is given the class that was created just before it.
type priorityClasses struct{ store *genericregistry.Store }

// prioritize resolves the priority class of a new Pod. A PUT of a manifest without the result gets it again.
func (p priorityClasses) prioritize(ctx context.Context, a admission.Attributes) error {
	spec := &mustBe[*corev1.Pod](a.GetObject()).Spec
	if a.GetOperation() == admission.Update {
		old := &mustBe[*corev1.Pod](a.GetOldObject()).Spec
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

// classOf returns the class of a name, or the one that Pods without a class have. The caller does not change what its pointers
// lead to.
func (p priorityClasses) classOf(ctx context.Context, a admission.Attributes, name string) (*schedulingv1.PriorityClass, error) {
	if name == "" {
		class, err := p.defaultClass(ctx)
		if class == nil && err == nil {
			policy := corev1.PreemptLowerPriority
			class = &schedulingv1.PriorityClass{PreemptionPolicy: &policy}
		}
		return class, err
	}
	found, err := cached[*schedulingv1.PriorityClass](ctx, p.store, name)
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
	classes, err := listAll[*schedulingv1.PriorityClassList](ctx, p.store)
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
	class := mustBe[*schedulingv1.PriorityClass](a.GetObject())
	if !class.GlobalDefault {
		return nil
	}
	existing, err := p.defaultClass(ctx)
	if err != nil || existing == nil || a.GetOperation() == admission.Update && existing.Name == class.Name {
		return err
	}
	return admission.NewForbidden(a, fmt.Errorf("PriorityClass %v is already marked as default. Only one default can exist", existing.Name))
}
