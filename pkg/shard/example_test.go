// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package shard_test

import (
	"context"
	"errors"
	"log"

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

// Work that is no reconcile: each replica backs up the namespaces that it owns.
func ExampleRing_Hold() {
	backUpAll := func(ctx context.Context, ring *shard.Ring, namespaces []string, backUp func(context.Context, string) error) error {
		for _, namespace := range namespaces {
			held, release, err := ring.Hold(ctx, namespace)
			if owned := (*shard.NotOwnedError)(nil); errors.As(err, &owned) {
				log.Print(owned)
				continue
			}
			err = backUp(held, namespace)
			release()
			if err != nil {
				return err
			}
		}
		return nil
	}
	_ = backUpAll
}

// Each replica caches and reconciles the tenants that it owns: Options.Key of the ring is metadata.labels['tenant'].
func ExampleRing_ReconcilerBy() {
	setup := func(cfg *rest.Config, ring *shard.Ring, inner reconcile.Reconciler) (ctrl.Manager, error) {
		mgr, err := ctrl.NewManager(cfg, ctrl.Options{
			NewCache: cache.With(cache.Tuning{ByObject: map[crclient.Object]cache.TuningByObject{
				&corev1.ConfigMap{}: {Whole: []crclient.ListOptions{{FieldSelector: ring.Selector()}}},
			}}),
			NewClient: client.New,
		})
		if err != nil {
			return nil, err
		}
		err = ctrl.NewControllerManagedBy(mgr).
			For(&corev1.ConfigMap{}).
			WatchesRawSource(ring.Source(mgr.GetClient(), &corev1.ConfigMapList{})).
			WithOptions(controller.Options{NeedLeaderElection: ptr.To(false)}).
			Complete(ring.ReconcilerBy(inner, mgr.GetClient(), &corev1.ConfigMap{}))
		if err != nil {
			return nil, err
		}
		return mgr, mgr.Add(ring)
	}
	_ = setup
}
