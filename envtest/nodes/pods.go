// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// hostIP is the address of each node, of a network for documentation.
const hostIP = "192.0.2.1"

// pods reconciles the Pods of the nodes. A single worker does, so that its fields need no lock.
type pods struct {
	nodes   *Nodes
	client  client.Client
	known   map[types.NamespacedName]*memory // of Pods on these nodes; gone with the Pod
	address netip.Addr                       // the last that a Pod has got
}

// memory is what the status of a Pod does not say.
type memory struct {
	uid        types.UID
	containers map[string]*pause
	unsure     *step // what was written, and whether it was is not known
}

// pause is how long a container waits before it goes on. A step changes it when the API server has the step.
type pause struct {
	until  time.Time // before it starts
	by     *Fault    // which delays this start, and has counted it; nil if none does
	failed int       // starts that failed
	ends   time.Time // when what runs ends by itself, if it does
}

// pause returns the pause of a container, a new one if it has none.
func (m *memory) pause(container string) *pause {
	p := m.containers[container]
	if p == nil {
		p = &pause{}
		m.containers[container] = p
	}
	return p
}

// addPods adds the controller of Pods.
func (n *Nodes) addPods(m ctrl.Manager) error {
	r := &pods{nodes: n, client: m.GetClient(), known: map[types.NamespacedName]*memory{}, address: netip.MustParseAddr("10.244.0.0")}
	err := ctrl.NewControllerManagedBy(m).Named(controllerName).
		WithOptions(pace()).
		For(&corev1.Pod{}).
		WatchesRawSource(source.Channel(n.changed, handler.EnqueueRequestsFromMapFunc(r.all))).
		Complete(r)
	if err != nil {
		return fmt.Errorf("make the controller of Pods: %w", err)
	}
	return nil
}

// all returns all Pods, as requests.
func (r *pods) all(ctx context.Context, _ client.Object) []reconcile.Request {
	list := &corev1.PodList{}
	if r.client.List(ctx, list) != nil {
		return nil // the cache has stopped
	}
	var requests []reconcile.Request
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// Reconcile implements reconcile.Reconciler: it takes one step in the life of a Pod.
func (r *pods) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	pod := &corev1.Pod{}
	if err := r.client.Get(ctx, request.NamespacedName, pod); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(request.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !r.nodes.works(pod.Spec.NodeName) {
		return reconcile.Result{}, nil
	}
	m := r.memoryOf(pod)
	m.settle(pod)
	l := &life{nodes: r.nodes, memory: m, pod: pod, now: time.Now(), address: r.newAddress}
	if pod.DeletionTimestamp != nil {
		return reconcile.Result{}, again(r.end(ctx, l))
	}
	next := l.next()
	if next == nil {
		return reconcile.Result{RequeueAfter: l.wait}, nil
	}
	return reconcile.Result{RequeueAfter: l.wait}, again(r.write(ctx, pod, m, next))
}

// again returns the error of a write. Another writer, or the end of the Pod, is none: its event has the Pod looked at again.
func again(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// write writes the status of a step, and counts what happened with it.
func (r *pods) write(ctx context.Context, pod *corev1.Pod, m *memory, next *step) error {
	now := pod.DeepCopy()
	now.Status = next.status
	m.unsure = next
	if err := r.client.Status().Update(ctx, now); err != nil {
		return err // the write may have taken effect, as settle will see
	}
	m.unsure = nil
	next.count()
	return nil
}

// settle counts what happened with a step whose write has no answer, if the Pod has its status.
func (m *memory) settle(pod *corev1.Pod) {
	if m.unsure == nil {
		return
	}
	was, is := &m.unsure.status, &pod.Status
	if was.Phase == is.Phase && was.Reason == is.Reason &&
		equality.Semantic.DeepEqual(was.ContainerStatuses, is.ContainerStatuses) &&
		equality.Semantic.DeepEqual(was.InitContainerStatuses, is.InitContainerStatuses) {
		m.unsure.count()
	}
	m.unsure = nil
}

// end ends the containers of a Pod that is being deleted, and then deletes it, as a kubelet does.
func (r *pods) end(ctx context.Context, l *life) error {
	if last := l.last(); last != nil {
		return r.write(ctx, l.pod, l.memory, last)
	}
	if seconds := l.pod.DeletionGracePeriodSeconds; seconds != nil && *seconds == 0 && len(l.pod.Finalizers) > 0 {
		return nil // it goes with its finalizers
	}
	return r.client.Delete(ctx, l.pod, client.GracePeriodSeconds(0), client.Preconditions{UID: ptr.To(l.pod.UID)})
}

// memoryOf returns that of a Pod; another Pod of its name had one of its own.
func (r *pods) memoryOf(pod *corev1.Pod) *memory {
	key := client.ObjectKeyFromObject(pod)
	if m := r.known[key]; m != nil && m.uid == pod.UID {
		return m
	}
	r.forget(key)
	m := &memory{uid: pod.UID, containers: map[string]*pause{}}
	r.known[key] = m
	return m
}

// forget drops what is known of a Pod that is gone.
func (r *pods) forget(key types.NamespacedName) {
	m := r.known[key]
	if m == nil {
		return
	}
	delete(r.known, key)
	for _, f := range r.nodes.rules.list() {
		f.drop(func(container string) bool { return strings.HasPrefix(container, string(m.uid)+"/") })
	}
}

// newAddress returns an address for a Pod. They begin anew after some ten million.
func (r *pods) newAddress() string {
	if r.address = r.address.Next(); !netip.MustParsePrefix("10.0.0.0/8").Contains(r.address) {
		r.address = netip.MustParseAddr("10.0.0.1")
	}
	return r.address.String()
}
