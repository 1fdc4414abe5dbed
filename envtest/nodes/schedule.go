// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// unfit is how long a Pod waits that no node takes.
const unfit = time.Second

// scheduler binds Pods to nodes in turn. A single worker does, so that turn needs no lock.
type scheduler struct {
	nodes  *Nodes
	client client.Client
	turn   int
}

// addScheduler adds the controller that binds Pods.
func (n *Nodes) addScheduler(m ctrl.Manager) error {
	unbound := predicate.NewPredicateFuncs(func(obj client.Object) bool {
		p, ok := obj.(*corev1.Pod)
		return ok && unscheduled(p)
	})
	err := ctrl.NewControllerManagedBy(m).Named(controllerName + "-schedule").WithOptions(pace()).For(&corev1.Pod{}).WithEventFilter(unbound).
		Complete(&scheduler{nodes: n, client: m.GetClient()})
	if err != nil {
		return fmt.Errorf("make the controller that binds Pods: %w", err)
	}
	return nil
}

// unscheduled says whether a Pod waits for the default scheduler.
func unscheduled(p *corev1.Pod) bool {
	return p.Spec.NodeName == "" && p.DeletionTimestamp == nil && len(p.Spec.SchedulingGates) == 0 && !over(p.Status.Phase) &&
		(p.Spec.SchedulerName == "" || p.Spec.SchedulerName == corev1.DefaultSchedulerName)
}

// Reconcile implements reconcile.Reconciler.
func (s *scheduler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	pod := &corev1.Pod{}
	if err := s.client.Get(ctx, request.NamespacedName, pod); err != nil || !unscheduled(pod) {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	node, err := s.choose(ctx, pod)
	if err != nil {
		return reconcile.Result{}, err
	}
	if node == "" {
		return reconcile.Result{RequeueAfter: unfit}, nil
	}
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}
	return reconcile.Result{}, again(s.client.SubResource("binding").Create(ctx, pod, binding))
}

// choose returns the name of the next node that takes a Pod, or nothing.
func (s *scheduler) choose(ctx context.Context, pod *corev1.Pod) (string, error) {
	names, selector := s.nodes.names, labels.SelectorFromSet(pod.Spec.NodeSelector)
	for range names {
		s.turn++
		name := names[s.turn%len(names)]
		if !s.nodes.works(name) || !meant(pod, name) {
			continue
		}
		node := &corev1.Node{}
		err := s.client.Get(ctx, client.ObjectKey{Name: name}, node)
		if apierrors.IsNotFound(err) {
			node, err = s.nodes.object(name), nil // it will be there
		}
		if err != nil {
			return "", err
		}
		if selector.Matches(labels.Set(node.Labels)) {
			return name, nil
		}
	}
	return "", nil
}

// meant says whether a Pod may be on a node of that name. The Pods of a DaemonSet are each for one.
func meant(pod *corev1.Pod, name string) bool {
	a := pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return true
	}
	other := func(field corev1.NodeSelectorRequirement) bool {
		return field.Key == metav1.ObjectNameField && field.Operator == corev1.NodeSelectorOpIn && !slices.Contains(field.Values, name)
	}
	return slices.ContainsFunc(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms, func(t corev1.NodeSelectorTerm) bool {
		return !slices.ContainsFunc(t.MatchFields, other)
	})
}
