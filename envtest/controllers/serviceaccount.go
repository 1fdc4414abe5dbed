// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tarn-dev/tarn/pkg/cache"
)

const (
	serviceAccountName = "serviceaccount-controller"
	// defaultAccount is the ServiceAccount that each namespace has.
	defaultAccount = "default"
)

// serviceAccountController makes the ServiceAccount default of each namespace, and makes it again when it is deleted.
type serviceAccountController struct{ client client.Client }

func runServiceAccountController(ctx context.Context, cfg *rest.Config) error {
	return run(ctx, cfg, cache.Options{DefaultTransform: withoutDescription}, func(m ctrl.Manager) error {
		return ctrl.NewControllerManagedBy(m).Named(serviceAccountName).
			For(&corev1.Namespace{}).
			WatchesMetadata(&corev1.ServiceAccount{}, namespaceOf(defaultAccount)).
			Complete(&serviceAccountController{m.GetClient()})
	})
}

// namespaceOf returns a handler that has the namespace of objects of a name reconciled.
func namespaceOf(name string) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, obj client.Object) []reconcile.Request {
		if obj.GetName() != name {
			return nil
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: obj.GetNamespace()}}}
	})
}

// Reconcile implements reconcile.Reconciler.
func (r *serviceAccountController) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if active, err := isActive(ctx, r.client, request.Name); err != nil || !active {
		return reconcile.Result{}, err
	}
	known := metadataOf(corev1.SchemeGroupVersion.WithKind("ServiceAccount"))
	err := r.client.Get(ctx, types.NamespacedName{Namespace: request.Name, Name: defaultAccount}, known)
	if !apierrors.IsNotFound(err) {
		return reconcile.Result{}, err
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: request.Name, Name: defaultAccount}}
	if err := r.client.Create(ctx, account); !apierrors.IsAlreadyExists(err) {
		return reconcile.Result{}, unlessLeaving(err)
	}
	return reconcile.Result{RequeueAfter: settle}, nil // the cache is about to show it, unless it goes before
}

// isActive reports whether there is a namespace, and it is not being deleted.
func isActive(ctx context.Context, c client.Client, name string) (bool, error) {
	ns := &corev1.Namespace{}
	if err := c.Get(ctx, types.NamespacedName{Name: name}, ns); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return ns.Status.Phase == corev1.NamespaceActive, nil
}

// unlessLeaving returns the error of a creation, or nil if nothing can be created because the namespace is leaving, or has left.
func unlessLeaving(err error) error {
	if apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return err
}
