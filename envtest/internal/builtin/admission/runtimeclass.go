// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// runtimeClasses is the admission plugin RuntimeClass: a Pod that names a class gets its overhead and the nodes that have it.
// The rules are those of kube-apiserver's plugin/pkg/admission/runtimeclass.
type runtimeClasses struct{ store *kind.Store }

// of returns the class that a Pod names, or nil if it names none.
func (r runtimeClasses) of(ctx context.Context, a admission.Attributes, pod *corev1.Pod) (*nodev1.RuntimeClass, error) {
	name := pod.Spec.RuntimeClassName
	if name == nil {
		return nil, nil
	}
	class, err := kind.Cached[*nodev1.RuntimeClass](ctx, r.store, *name)
	if apierrors.IsNotFound(err) {
		return nil, admission.NewForbidden(a, fmt.Errorf("pod rejected: RuntimeClass %q not found", *name))
	}
	return class, err
}

// apply gives a new Pod what its class says.
func (r runtimeClasses) apply(ctx context.Context, a admission.Attributes) error {
	pod := kind.MustBe[*corev1.Pod](a.GetObject())
	class, err := r.of(ctx, a, pod)
	if err != nil || class == nil {
		return err
	}
	if class.Overhead != nil {
		if len(pod.Spec.Overhead) > 0 && !apiequality.Semantic.DeepEqual(class.Overhead.PodFixed, pod.Spec.Overhead) {
			return admission.NewForbidden(a, errOverhead)
		}
		pod.Spec.Overhead = maps.Clone(class.Overhead.PodFixed)
	}
	if class.Scheduling == nil {
		return nil
	}
	selector := maps.Clone(pod.Spec.NodeSelector)
	for key, value := range class.Scheduling.NodeSelector {
		if own, ok := selector[key]; ok && own != value {
			return admission.NewForbidden(a, fmt.Errorf(
				"conflict: runtimeClass.scheduling.nodeSelector[%s] = %s; pod.spec.nodeSelector[%s] = %s", key, value, key, own))
		}
		if selector == nil {
			selector = map[string]string{}
		}
		selector[key] = value
	}
	pod.Spec.NodeSelector = selector
	pod.Spec.Tolerations = mergeTolerations(pod.Spec.Tolerations, class.Scheduling.Tolerations)
	return nil
}

var errOverhead = errors.New("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")

// check refuses a new Pod with another overhead than that of its class.
func (r runtimeClasses) check(ctx context.Context, a admission.Attributes) error {
	pod := kind.MustBe[*corev1.Pod](a.GetObject())
	class, err := r.of(ctx, a, pod)
	switch {
	case err != nil:
		return err
	case class != nil && class.Overhead != nil:
		if !apiequality.Semantic.DeepEqual(class.Overhead.PodFixed, pod.Spec.Overhead) {
			return admission.NewForbidden(a, errOverhead)
		}
	case pod.Spec.Overhead != nil:
		return admission.NewForbidden(a, errors.New("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"))
	}
	return nil
}

// mergeTolerations returns the tolerations of both lists, without those that another one covers.
func mergeTolerations(first, second []corev1.Toleration) []corev1.Toleration {
	all := append(append([]corev1.Toleration(nil), first...), second...)
	var merged []corev1.Toleration
next:
	for i, t := range all {
		for _, other := range merged {
			if covers(other, t) {
				continue next
			}
		}
		for _, other := range all[i+1:] {
			if !apiequality.Semantic.DeepEqual(t, other) && covers(other, t) {
				continue next
			}
		}
		merged = append(merged, t)
	}
	return merged
}

// covers reports whether every taint that t tolerates is tolerated by other at least as long.
func covers(other, t corev1.Toleration) bool {
	switch {
	case apiequality.Semantic.DeepEqual(other, t):
		return true
	case t.Key != other.Key && (other.Key != "" || other.Operator != corev1.TolerationOpExists):
		return false
	case t.Effect != other.Effect && other.Effect != "":
		return false
	}
	if other.Effect == corev1.TaintEffectNoExecute {
		if other.TolerationSeconds != nil && (t.TolerationSeconds == nil || *t.TolerationSeconds > *other.TolerationSeconds) {
			return false
		}
	}
	switch other.Operator {
	case corev1.TolerationOpEqual, "":
		return t.Operator == corev1.TolerationOpEqual && t.Value == other.Value
	case corev1.TolerationOpExists:
		return true
	}
	return false
}
