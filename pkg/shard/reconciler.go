// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"cmp"
	"context"
	"errors"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Reconciler returns a reconciler that calls another one for the requests of this replica. The key of a request is its namespace, or its
// name if it has none. It is held meanwhile, so the context of a reconcile ends when the key is lost, and a client of pkg/client refuses
// to write with it. For other keys write a reconciler that calls [Ring.Hold].
//
// A request of another replica is dropped if a cache follows the ring ([Ring.Term]): that tells of all objects of a namespace when it is
// this replica's again. Without such a cache, and if the request has no namespace, it is asked again after each LeaseDuration whose it is.
// A request for whose key this replica waits comes back soon. Let the controller run on every replica: NeedLeaderElection is false in its
// options.
func (r *Ring) Reconciler(of reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		held, release, err := r.Hold(ctx, cmp.Or(req.Namespace, req.Name))
		if err != nil {
			return reconcile.Result{RequeueAfter: r.askAgain(req)}, nil
		}
		defer release()
		result, err := of.Reconcile(held, req)
		if lost := (*NotOwnedError)(nil); err != nil && errors.As(context.Cause(held), &lost) {
			return reconcile.Result{RequeueAfter: r.askAgain(req)}, nil
		}
		return result, err
	})
}

// askAgain returns after which time a request that was refused comes back, and zero if it need not.
func (r *Ring) askAgain(req reconcile.Request) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch term := r.termOf(cmp.Or(req.Namespace, req.Name)); {
	case term > 0:
		return r.options.RetryPeriod / 4
	case req.Namespace != "" && r.terms.followed:
		return 0
	}
	return r.options.LeaseDuration
}
