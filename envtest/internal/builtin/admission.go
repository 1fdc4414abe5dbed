// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
)

// Some of what clients see of a new object on a kube-apiserver is the work of admission plugins that are on by default:
// Priority, DefaultTolerationSeconds, TaintNodesByCondition and StorageObjectInUseProtection. Their part in creating an
// object is done here.

// evictionDelay is how long a Pod tolerates that its node is gone, in seconds.
const evictionDelay = 300

// tolerateNodeTroubles gives a Pod the tolerations that delay its eviction.
func tolerateNodeTroubles(pod *corev1.Pod) {
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		tolerated := slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
			return (t.Key == key || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "")
		})
		if tolerated {
			continue
		}
		seconds := int64(evictionDelay)
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
			Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds,
		})
	}
}

// taintNewNode keeps Pods off a node until something removes the taint.
func taintNewNode(_ context.Context, node, old *corev1.Node) {
	taint := corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
	if old == nil && !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) }) {
		node.Spec.Taints = append(node.Spec.Taints, taint)
	}
}

// The finalizers that keep volumes and claims while they are in use. As with a bare kube-apiserver, nobody removes them
// here by itself.
const (
	volumeProtection = "kubernetes.io/pv-protection"
	claimProtection  = "kubernetes.io/pvc-protection"
)

// protect adds a finalizer to a new object.
func protect(obj metav1.Object, finalizer string) {
	if finalizers := obj.GetFinalizers(); !slices.Contains(finalizers, finalizer) {
		obj.SetFinalizers(append(finalizers, finalizer))
	}
}

// priorityOf returns a hook that resolves the priority class of a new Pod. A class that is the global default is not
// looked for.
func priorityOf(classes func() *genericregistry.Store) genericregistry.BeginCreateFunc {
	return func(ctx context.Context, obj runtime.Object, _ *metav1.CreateOptions) (genericregistry.FinishFunc, error) {
		pod := mustBe[*corev1.Pod](obj)
		value, policy := int32(0), corev1.PreemptLowerPriority
		if name := pod.Spec.PriorityClassName; name != "" {
			found, err := classes().Get(ctx, name, &metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil, apierrors.NewForbidden(corev1.Resource("pods"), pod.Name, fmt.Errorf("no PriorityClass with name %v was found", name))
			}
			if err != nil {
				return nil, fmt.Errorf("look up the priority class %s of pod %s/%s: %w", name, pod.Namespace, pod.Name, err)
			}
			class := mustBe[*schedulingv1.PriorityClass](found)
			value = class.Value
			if class.PreemptionPolicy != nil {
				policy = *class.PreemptionPolicy
			}
		}
		pod.Spec.Priority, pod.Spec.PreemptionPolicy = &value, &policy
		return func(context.Context, bool) {}, nil
	}
}

// priorityClassResource is where the priority classes are.
func priorityClassResource() schema.GroupResource { return schedulingv1.Resource("priorityclasses") }
