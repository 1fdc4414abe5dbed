// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduling

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
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

func defaultPriorityClass(class *schedulingv1.PriorityClass) {
	kind.Missing(&class.PreemptionPolicy, corev1.PreemptLowerPriority)
}

func SchedulingKinds() []*kind.Kind {
	return []*kind.Kind{{
		GVK: schedulingv1.SchemeGroupVersion.WithKind("PriorityClass"), Resource: "priorityclasses", Short: []string{"pc"},
		Cluster: true,
		Hooks:   kind.Hooks{Defaults: kind.Typed(defaultPriorityClass), Prepare: kind.TypedPrepare(preparePriorityClass), Validate: kind.TypedCheck(validatePriorityClass)},
		Attach:  attachPriorityClass,
		Table:   kind.Show("Value#,Global-Default?,Age,PreemptionPolicy", priorityClassCells),
	}}
}

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

// PriorityClassResource is where the priority classes are.
var PriorityClassResource = schedulingv1.Resource("priorityclasses")

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
		errs := kind.Frozen(class.PreemptionPolicy, old.PreemptionPolicy, field.NewPath("preemptionPolicy"))
		if class.Value != old.Value {
			errs = append(errs, field.Forbidden(field.NewPath("value"), "may not be changed in an update."))
		}
		return errs
	}
	var errs field.ErrorList
	if class.PreemptionPolicy != nil {
		f := kind.Findings{}
		kind.Choice(&f, *class.PreemptionPolicy, field.NewPath("preemptionPolicy"), corev1.PreemptLowerPriority, corev1.PreemptNever)
		errs = f.List
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
type priorityClassREST struct{ kind.ResourceREST }

func (r priorityClassREST) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	if systemPriorityClass(name) != nil {
		return nil, false, apierrors.NewForbidden(PriorityClassResource, name, errors.New("this is a system priority class and cannot be deleted"))
	}
	return r.ResourceREST.Delete(ctx, name, validate, options)
}

// attachPriorityClass replaces the main resource.
func attachPriorityClass(a *kind.Served) (map[string]rest.Storage, error) {
	return map[string]rest.Storage{"": priorityClassREST{kind.ResourceREST{Store: a.Store, Kind: a.Kind}}}, nil
}

func priorityClassCells(class *schedulingv1.PriorityClass) []any {
	return []any{int64(class.Value), class.GlobalDefault, kind.AgeOf(class), kind.Value(class.PreemptionPolicy, "")}
}

// preparePriorityClass gives a class the only generation it will have.
func preparePriorityClass(_ context.Context, class, old *schedulingv1.PriorityClass) {
	if old == nil {
		class.Generation = 1
	}
}
