// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tarn-dev/tarn/pkg/cache"
)

const (
	namespaceName = "namespace-controller"

	namespaceWorkers = 4
	// firstRetry and lastRetry are kube-controller-manager's times between two attempts that fail.
	firstRetry = 5 * time.Millisecond
	lastRetry  = time.Minute
)

// namespaceController deletes what is in a namespace that is being deleted, and then lets the namespace go.
type namespaceController struct {
	client    client.Client
	content   *content
	leftovers *leftovers
}

func runNamespaceController(ctx context.Context, cfg *rest.Config) error {
	return run(ctx, cfg, cache.Options{DefaultTransform: withoutDescription}, func(m ctrl.Manager) error {
		found, err := newContent(m)
		if err != nil {
			return err
		}
		r := &namespaceController{client: m.GetClient(), content: found}
		c, err := ctrl.NewControllerManagedBy(m).Named(namespaceName).
			For(&corev1.Namespace{}, builder.WithPredicates(terminating)).
			WithOptions(controller.Options{
				MaxConcurrentReconciles: namespaceWorkers,
				RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
			}).Build(r)
		if err != nil {
			return fmt.Errorf("make the controller: %w", err)
		}
		r.leftovers = newLeftovers(m.GetCache(), c)
		return nil
	})
}

// newContent returns what finds and deletes the content of namespaces, with clients of a manager.
func newContent(m ctrl.Manager) (*content, error) {
	asks, err := discovery.NewDiscoveryClientForConfigAndClient(m.GetConfig(), m.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("make the client of discovery: %w", err)
	}
	deletes, err := metadata.NewForConfigAndClient(metadata.ConfigFor(m.GetConfig()), m.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("make the client of metadata: %w", err)
	}
	return &content{discovery: asks, metadata: deletes, live: m.GetAPIReader()}, nil
}

// terminating passes the news of a terminating namespace, without the controller's own writes.
var terminating = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return isGoing(e.Object) },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return isGoing(e.ObjectNew) && (!isGoing(e.ObjectOld) || !slices.Equal(e.ObjectOld.GetFinalizers(), e.ObjectNew.GetFinalizers()))
	},
	DeleteFunc: func(event.DeleteEvent) bool { return false },
}

func isGoing(obj client.Object) bool { return !obj.GetDeletionTimestamp().IsZero() }

// Reconcile implements reconcile.Reconciler. A namespace goes when a look at all kinds has found it empty; so what was created
// while the namespace was being deleted is found by the next look.
func (r *namespaceController) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	ns := &corev1.Namespace{}
	if err := r.client.Get(ctx, request.NamespacedName, ns); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	} else if err != nil || !isGoing(ns) || len(ns.Spec.Finalizers) == 0 {
		return reconcile.Result{}, r.leftovers.end(ctx, request.Name, nil)
	}
	look := r.leftovers.now()
	report := r.content.delete(ctx, ns)
	if err := r.writeStatus(ctx, ns, report); err != nil {
		return reconcile.Result{}, err
	}
	missed := r.leftovers.watch(ctx, ns.Name, report.kinds(), look)
	if err := report.err(); err != nil { // more may remain than is known
		return reconcile.Result{}, err
	}
	if err := r.leftovers.end(ctx, ns.Name, report.kinds()); err != nil {
		return reconcile.Result{}, err
	}
	switch {
	case missed, report.found && !report.remains():
		return reconcile.Result{RequeueAfter: firstRetry}, nil
	case report.remains():
		return reconcile.Result{RequeueAfter: report.estimate/2 + time.Second}, nil
	}
	return reconcile.Result{}, r.finalize(ctx, ns)
}

// writeStatus writes the conditions, and the phase that a namespace has from its deletion on.
func (r *namespaceController) writeStatus(ctx context.Context, ns *corev1.Namespace, found *report) error {
	changed := setConditions(&ns.Status, found)
	if !changed && ns.Status.Phase == corev1.NamespaceTerminating {
		return nil
	}
	ns.Status.Phase = corev1.NamespaceTerminating
	if err := r.client.Status().Update(ctx, ns); err != nil {
		return fmt.Errorf("write the conditions: %w", err)
	}
	return nil
}

// finalize takes away the finalizer that stands for the content of the namespace.
func (r *namespaceController) finalize(ctx context.Context, ns *corev1.Namespace) error {
	ns.Spec.Finalizers = slices.DeleteFunc(ns.Spec.Finalizers, func(f corev1.FinalizerName) bool {
		return f == corev1.FinalizerKubernetes
	})
	if err := r.client.SubResource("finalize").Update(ctx, ns); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("finalize: %w", err)
	}
	return nil
}
