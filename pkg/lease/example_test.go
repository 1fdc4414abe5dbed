// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/lease"
)

// A program that may read one Secret caches that one.
func ExampleAcquire() {
	read := func(ctx context.Context, mgr ctrl.Manager) (tls *corev1.Secret, err error) {
		secret, err := lease.Acquire(ctx, mgr.GetCache(), &corev1.Secret{}, lease.Scope{Namespace: "shop", Name: "tls"})
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, secret.Release()) }()
		tls = &corev1.Secret{}
		return tls, secret.Get(ctx, client.ObjectKey{Namespace: "shop", Name: "tls"}, tls)
	}
	_ = read
}

// A reconciler says why it runs, in its own words.
func ExampleReferences_WakeUps() {
	describe := func(w lease.WakeUp) string { return w.Kind.Kind + " " + w.Change }
	reconcile := func(ctx context.Context, refs *lease.References[ctrl.Request], req ctrl.Request) error {
		for _, w := range refs.WakeUps(ctx) {
			ctrl.LoggerFrom(ctx).Info("Reconciling", "because", describe(w))
		}
		return client.IgnoreNotFound(refs.Get(ctx, req.NamespacedName, &corev1.Secret{}))
	}
	_ = reconcile
}
