// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
)

const (
	workers = 8
	slots   = 2 // children of a parent
	steps   = 2 // updates of a child, after it was created

	parentLabel, slotLabel = "example/parent", "example/slot"
	step                   = "step" // the key of a child's data that says how far it is

	// again is when a parent that is not done yet is looked at again.
	again = 10 * time.Millisecond
)

// reconciler makes the children of parents, and updates each some times. It makes one write at a
// time and then looks again, as controllers do that go from state to state.
type reconciler struct {
	client     client.Client
	reconciles atomic.Int64
	done       chan struct{} // closed when no parent is left

	mu    sync.Mutex      // guards what follows
	left  map[string]bool // parents that are not done
	reads []time.Duration
}

func (r *reconciler) setUp(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, SkipNameValidation: ptr.To(true)}).
		Complete(r)
}

// Reconcile implements reconcile.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	r.reconciles.Add(1)
	p, children := &corev1.ConfigMap{}, &corev1.SecretList{}
	if err := r.read(func() error { return r.client.Get(ctx, req.NamespacedName, p) }); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if err := r.read(func() error {
		return r.client.List(ctx, children, client.InNamespace(p.Namespace), client.MatchingLabels{parentLabel: p.Name})
	}); err != nil {
		return ctrl.Result{}, err
	}
	wrote, err := r.next(ctx, p, children.Items)
	switch {
	case apierrors.IsConflict(err), err == nil && wrote:
		return ctrl.Result{RequeueAfter: again}, nil
	case err == nil:
		r.finish(p.Name)
	}
	return ctrl.Result{}, err
}

// read calls f, and notes how long it took.
func (r *reconciler) read(f func() error) error {
	begin := time.Now()
	err := f()
	took := time.Since(begin)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads = append(r.reads, took)
	return err
}

// next makes the next write for a parent, and reports whether there was one to make.
func (r *reconciler) next(ctx context.Context, p *corev1.ConfigMap, children []corev1.Secret) (wrote bool, err error) {
	for slot := range slots {
		i := slices.IndexFunc(children, func(c corev1.Secret) bool { return c.Labels[slotLabel] == strconv.Itoa(slot) })
		if i < 0 {
			return true, r.client.Create(ctx, child(p, slot))
		}
		if at, _ := strconv.Atoi(string(children[i].Data[step])); at < steps {
			children[i].Data[step] = []byte(strconv.Itoa(at + 1))
			return true, r.client.Update(ctx, &children[i])
		}
	}
	return false, nil
}

// finish notes that a parent is done.
func (r *reconciler) finish(parent string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.left[parent] {
		return
	}
	delete(r.left, parent)
	if len(r.left) == 0 {
		close(r.done)
	}
}

// p99 returns the time that all but one of a hundred reads took at most.
func (r *reconciler) p99() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.Sort(r.reads)
	return r.reads[len(r.reads)*99/100]
}

func parent(namespace string, n int) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("parent-%02d", n)}}
}

// child returns a child whose name the server chooses, so that nothing keeps it from being made twice.
func child(p *corev1.ConfigMap, slot int) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, GenerateName: fmt.Sprintf("%s-%d-", p.Name, slot),
			Labels:          map[string]string{parentLabel: p.Name, slotLabel: strconv.Itoa(slot)},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(p, corev1.SchemeGroupVersion.WithKind("ConfigMap"))},
		},
		Data: map[string][]byte{step: []byte("0")},
	}
}
