// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

const (
	// leaseSeconds is how long a Lease holds, and renewal how often it is renewed, as by a kubelet.
	leaseSeconds = 40
	renewal      = 10 * time.Second
)

// keeper writes the Nodes and their Leases.
type keeper struct {
	nodes  *Nodes
	client client.Client
}

// addKeeper adds the controller of Nodes. A Node that is deleted comes back. Leases are watched so that no read starts their
// informer.
func (n *Nodes) addKeeper(m ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(m).Named(controllerName+"-keep").WithOptions(pace()).
		For(&corev1.Node{}).
		Watches(&coordinationv1.Lease{}, handler.Funcs{}).
		WatchesRawSource(source.Channel(n.nodes, handler.EnqueueRequestsFromMapFunc(n.all))).
		Complete(&keeper{n, m.GetClient()})
	if err != nil {
		return fmt.Errorf("make the controller of Nodes: %w", err)
	}
	tell(n.nodes) // there are none yet
	return nil
}

// all returns all nodes, as requests.
func (n *Nodes) all(context.Context, client.Object) []reconcile.Request {
	var requests []reconcile.Request
	for _, name := range n.names {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKey{Name: name}})
	}
	return requests
}

// Reconcile implements reconcile.Reconciler: it writes a Node that is not there, or whose condition is not what it should be, and
// renews its Lease.
func (k *keeper) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if !slices.Contains(k.nodes.names, request.Name) {
		return reconcile.Result{}, nil
	}
	node := &corev1.Node{}
	works := k.nodes.works(request.Name)
	err := k.client.Get(ctx, request.NamespacedName, node)
	if apierrors.IsNotFound(err) {
		if !works {
			return reconcile.Result{}, nil // a machine that is gone does not register
		}
		node = k.nodes.object(request.Name)
		err = k.client.Create(ctx, node)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if now := k.nodes.status(node, works); now != nil {
		node.Status = *now
		if err := k.client.Status().Update(ctx, node); err != nil {
			return reconcile.Result{}, again(err)
		}
	}
	if !works {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{RequeueAfter: renewal}, errors.Join(again(k.open(ctx, node)), k.renew(ctx, node))
}

// open takes away the taint with which the API server creates each Node, plugin/pkg/admission/nodetaint. In a cluster, the
// node-lifecycle-controller does so; without it, no scheduler would find a node.
func (k *keeper) open(ctx context.Context, node *corev1.Node) error {
	closed := func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeNotReady && t.Effect == corev1.TaintEffectNoSchedule
	}
	if !slices.ContainsFunc(node.Spec.Taints, closed) {
		return nil
	}
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, closed)
	return k.client.Update(ctx, node)
}

// object returns the Node of a name, as it is created.
func (n *Nodes) object(name string) *corev1.Node {
	node := &corev1.Node{}
	if like := n.options.Node; like != nil {
		node.Labels, node.Annotations, node.Spec = maps.Clone(like.Labels), maps.Clone(like.Annotations), *like.Spec.DeepCopy()
	}
	node.Name = name
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	for key, value := range map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64"} {
		if _, ok := node.Labels[key]; !ok {
			node.Labels[key] = value
		}
	}
	return node
}

// capacity is the default capacity of a node.
func capacity() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("32"), corev1.ResourceMemory: resource.MustParse("128Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
}

// status returns the status that a Node should have, or nil if it has it.
func (n *Nodes) status(node *corev1.Node, works bool) *corev1.NodeStatus {
	now := node.Status.DeepCopy()
	if len(now.Capacity) == 0 {
		now.Capacity = capacity()
		if like := n.options.Node; like != nil && len(like.Status.Capacity) > 0 {
			now.Capacity = like.Status.Capacity.DeepCopy()
		}
		now.Allocatable = now.Capacity.DeepCopy()
		if like := n.options.Node; like != nil && len(like.Status.Allocatable) > 0 {
			now.Allocatable = like.Status.Allocatable.DeepCopy()
		}
		now.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: hostIP}, {Type: corev1.NodeHostName, Address: node.Name}}
		now.NodeInfo.KubeletVersion, now.NodeInfo.OperatingSystem, now.NodeInfo.Architecture = "v1.36.0", "linux", "amd64"
	}
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status"}
	if !works { // in the words of the controller that notices it
		ready.Status, ready.Reason, ready.Message = corev1.ConditionUnknown, "NodeStatusUnknown", "Kubelet stopped posting node status."
	}
	for i := range now.Conditions {
		if c := &now.Conditions[i]; c.Type == corev1.NodeReady {
			if c.Status == ready.Status {
				return nil
			}
			ready.LastHeartbeatTime, ready.LastTransitionTime = metav1.Now(), metav1.Now()
			*c = ready
			return now
		}
	}
	ready.LastHeartbeatTime, ready.LastTransitionTime = metav1.Now(), metav1.Now()
	now.Conditions = append(now.Conditions, ready)
	return now
}

// renew renews the Lease of a node, if it is time.
func (k *keeper) renew(ctx context.Context, node *corev1.Node) error {
	lease := &coordinationv1.Lease{}
	err := k.client.Get(ctx, client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: node.Name}, lease)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if last := lease.Spec.RenewTime; last != nil && time.Since(last.Time) < renewal/2 {
		return nil
	}
	lease.Namespace, lease.Name = corev1.NamespaceNodeLease, node.Name
	lease.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &node.Name, ptr.To[int32](leaseSeconds)
	lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
	if err != nil {
		err = k.client.Create(ctx, lease)
	} else {
		err = k.client.Update(ctx, lease)
	}
	if err != nil {
		return fmt.Errorf("renew the Lease: %w", err)
	}
	return nil
}
