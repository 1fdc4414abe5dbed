// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package shard_test

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tarn-dev/tarn/pkg/cache"
	"github.com/tarn-dev/tarn/pkg/client"
	"github.com/tarn-dev/tarn/pkg/shard"
)

// Each replica caches and reconciles the namespaces that it owns.
func Example() {
	setup := func(cfg *rest.Config, inner reconcile.Reconciler) (ctrl.Manager, error) {
		leases, err := coordinationclient.NewForConfig(cfg)
		if err != nil {
			return nil, err
		}
		ring, err := shard.New(shard.Options{Ring: "shop", Namespace: "shop-system", Client: leases})
		if err != nil {
			return nil, err
		}
		mgr, err := ctrl.NewManager(cfg, ctrl.Options{
			NewCache:  cache.With(cache.Tuning{Namespaces: labels.Everything(), Shard: ring}),
			NewClient: client.New, // writes nothing for a namespace that is lost
		})
		if err != nil {
			return nil, err
		}
		err = ctrl.NewControllerManagedBy(mgr).
			For(&corev1.ConfigMap{}).
			WithOptions(controller.Options{NeedLeaderElection: ptr.To(false)}). // every replica works
			Complete(ring.Reconciler(inner))
		if err != nil {
			return nil, err
		}
		return mgr, mgr.Add(ring)
	}
	_ = setup
}

// Each replica works on the tenants that it owns: the key is a label.
func ExampleRing_Hold() {
	reconcileTenant := func(ring *shard.Ring, c crclient.Client, inner reconcile.Reconciler) reconcile.Reconciler {
		return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
			object := &corev1.ConfigMap{}
			if err := c.Get(ctx, req.NamespacedName, object); err != nil {
				return reconcile.Result{}, crclient.IgnoreNotFound(err)
			}
			held, release, err := ring.Hold(ctx, object.Labels["tenant"])
			if errors.As(err, new(*shard.NotOwnedError)) { // it may become this replica's
				return reconcile.Result{RequeueAfter: time.Minute}, nil
			}
			defer release()
			return inner.Reconcile(held, req)
		})
	}
	_ = reconcileTenant
}
