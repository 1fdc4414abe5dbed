// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controller reconciles Websites.
package controller

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	webv1 "github.com/tarn-dev/tarn/examples/kubebuilder/api/v1"
)

// WebsiteReconciler keeps a Deployment for each Website.
type WebsiteReconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

// +kubebuilder:rbac:groups=web.example.com,resources=websites,verbs=get;list;watch
// +kubebuilder:rbac:groups=web.example.com,resources=websites/status,verbs=patch
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;update

// Reconcile makes the Deployment what the Website asks for, and writes into the
// Website how many Pods are available.
func (r *WebsiteReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	site := &webv1.Website{}
	if err := r.Get(ctx, req.NamespacedName, site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: site.Namespace, Name: site.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, deployment, func() error {
		r.serve(site, deployment)
		return controllerutil.SetControllerReference(site, deployment, r.Scheme)
	})
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("deploy %s: %w", req, err)
	}
	if site.Status.AvailableReplicas == deployment.Status.AvailableReplicas {
		return ctrl.Result{}, nil
	}
	before := site.DeepCopy()
	site.Status.AvailableReplicas = deployment.Status.AvailableReplicas
	return ctrl.Result{}, r.Status().Patch(ctx, site, client.MergeFrom(before))
}

// serve writes into a Deployment what the site asks for, and leaves all else alone.
func (r *WebsiteReconciler) serve(site *webv1.Website, deployment *appsv1.Deployment) {
	labels := map[string]string{"website": site.Name}
	deployment.Spec.Replicas = site.Spec.Replicas
	deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	deployment.Spec.Template.Labels = labels
	containers := &deployment.Spec.Template.Spec.Containers
	if len(*containers) == 0 {
		*containers = []corev1.Container{{Name: "web"}}
	}
	(*containers)[0].Image = site.Spec.Image
}

// SetupWithManager adds the controller to a manager.
func (r *WebsiteReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&webv1.Website{}).
		Owns(&appsv1.Deployment{}).
		Named("website").
		Complete(r)
}
