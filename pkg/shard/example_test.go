// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package shard_test

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
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

// Work on a key is held. Other replicas have the other keys.
func ExampleRing_Hold() {
	work := func(ctx context.Context, ring *shard.Ring, key string, do func(context.Context) error) error {
		held, release, err := ring.Hold(ctx, key)
		if errors.As(err, new(*shard.NotOwnedError)) {
			return nil
		}
		defer release()
		return do(held)
	}
	_ = work
}
