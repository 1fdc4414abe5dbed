// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tarn-dev/tarn/pkg/cache"
)

const (
	rootCAName = "root-ca-certificate-publisher-controller"
	// rootCAMap is the ConfigMap that each namespace has, and rootCAKey where it has the certificate.
	rootCAMap = "kube-root-ca.crt"
	rootCAKey = "ca.crt"

	// description is kube-controller-manager's.
	descriptionKey = "kubernetes.io/description"
	description    = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal " +
		"service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters."
)

// rootCAPublisher writes the certificate of the authority by which clients know the server into a ConfigMap of each namespace.
type rootCAPublisher struct {
	client client.Client
	data   map[string]string
}

func runRootCAPublisher(ctx context.Context, cfg *rest.Config) error {
	if err := rest.LoadTLSFiles(cfg); err != nil {
		return fmt.Errorf("load the certificate to publish: %w", err)
	}
	// The cache holds the ConfigMaps of this controller alone.
	ours := cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", rootCAMap)}
	options := cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.ConfigMap{}: ours}}
	return run(ctx, cfg, options, func(m ctrl.Manager) error {
		return ctrl.NewControllerManagedBy(m).Named(rootCAName).
			For(&corev1.Namespace{}).
			Watches(&corev1.ConfigMap{}, namespaceOf(rootCAMap)).
			Complete(&rootCAPublisher{m.GetClient(), map[string]string{rootCAKey: string(cfg.CAData)}})
	})
}

// Reconcile implements reconcile.Reconciler.
func (r *rootCAPublisher) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if active, err := isActive(ctx, r.client, request.Name); err != nil || !active {
		return reconcile.Result{}, err
	}
	published := &corev1.ConfigMap{}
	err := r.client.Get(ctx, types.NamespacedName{Namespace: request.Name, Name: rootCAMap}, published)
	switch {
	case apierrors.IsNotFound(err):
		published = &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: request.Name, Name: rootCAMap, Annotations: map[string]string{descriptionKey: description}},
			Data:       r.data,
		}
		return reconcile.Result{}, unlessLeaving(r.client.Create(ctx, published))
	case err != nil:
		return reconcile.Result{}, err
	case maps.Equal(published.Data, r.data) && published.Annotations[descriptionKey] != "":
		return reconcile.Result{}, nil
	}
	published.Data = maps.Clone(r.data)
	metav1.SetMetaDataAnnotation(&published.ObjectMeta, descriptionKey, description)
	return reconcile.Result{}, r.client.Update(ctx, published)
}
