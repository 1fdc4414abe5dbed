// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package shard_test

import (
	"context"
	"errors"

	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tarn-dev/tarn/pkg/shard"
)

// Each replica reconciles the namespaces that it owns.
func Example() {
	setup := func(mgr ctrl.Manager, inner reconcile.Reconciler) (reconcile.Reconciler, error) {
		leases, err := coordinationclient.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
		if err != nil {
			return nil, err
		}
		ring, err := shard.New(shard.Options{Ring: "shop", Namespace: "shop-system", Client: leases, Logger: mgr.GetLogger()})
		if err != nil {
			return nil, err
		}
		return mine(ring, inner), mgr.Add(ring)
	}
	_ = setup
}

// mine reconciles what this replica owns. The others reconcile the rest, and know of each change too.
func mine(ring *shard.Ring, inner reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		held, release, err := ring.Hold(ctx, req.Namespace)
		if other := (*shard.NotOwnedError)(nil); errors.As(err, &other) {
			return reconcile.Result{}, nil
		}
		defer release()
		return inner.Reconcile(held, req)
	})
}
