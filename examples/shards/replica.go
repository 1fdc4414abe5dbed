// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tarn-dev/tarn/pkg/cache"
	"github.com/tarn-dev/tarn/pkg/client"
	"github.com/tarn-dev/tarn/pkg/shard"
)

// tenantLabel has the namespace of the Leases of the operator as its value.
const tenantLabel = "shards.example/operator"

// given returns a patch that gives a namespace to the operator with its Leases in home.
func given(home string) crclient.Patch {
	return crclient.RawPatch(crclient.Merge.Type(), fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, tenantLabel, home))
}

// replica is one replica of the operator.
type replica struct {
	ring *shard.Ring
	stop func() error
}

// newManager returns the manager of a replica, and its ring.
func newManager(config *rest.Config, member, home string, of func(crclient.Client) reconcile.Reconciler) (ctrl.Manager, *shard.Ring, error) {
	leases, err := coordinationclient.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	ring, err := shard.New(shard.Options{Ring: "shop", Member: member, Client: leases, Namespace: home})
	if err != nil {
		return nil, nil, err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		NewCache: cache.With(cache.Tuning{
			Name:       member,
			Namespaces: labels.SelectorFromSet(labels.Set{tenantLabel: home}),
			Shard:      ring,
		}),
		NewClient: client.New,
		Metrics:   metricsserver.Options{BindAddress: "0"}, // no port
	})
	if err != nil {
		return nil, nil, err
	}
	err = ctrl.NewControllerManagedBy(mgr).
		For(&corev1.ConfigMap{}).
		WithOptions(controller.Options{
			NeedLeaderElection: ptr.To(false), // every replica works
			SkipNameValidation: ptr.To(true),  // this process has three replicas
		}).
		Complete(ring.Reconciler(of(mgr.GetClient())))
	if err != nil {
		return nil, nil, err
	}
	return mgr, ring, mgr.Add(ring)
}

// startReplica starts a replica, which stops when ctx ends, or stop is called.
func startReplica(ctx context.Context, config *rest.Config, member, home string) (*replica, error) {
	mgr, ring, err := newManager(config, member, home, func(c crclient.Client) reconcile.Reconciler { return &signer{c, member} })
	if err != nil {
		return nil, fmt.Errorf("make replica %s: %w", member, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	return &replica{ring, sync.OnceValue(func() error { cancel(); return <-ended })}, nil
}

// signer writes the name of its replica into ConfigMaps.
type signer struct {
	crclient.Client
	member string
}

// Reconcile implements reconcile.Reconciler. Its writes fail if the replica has lost the namespace.
func (r *signer) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	work := &corev1.ConfigMap{}
	if err := r.Get(ctx, req.NamespacedName, work); err != nil {
		return ctrl.Result{}, crclient.IgnoreNotFound(err)
	}
	if work.Labels[tenantLabel] == "" || work.Data["replica"] == r.member {
		return ctrl.Result{}, nil
	}
	before := work.DeepCopy()
	work.Data = map[string]string{"replica": r.member}
	return ctrl.Result{}, r.Patch(ctx, work, crclient.MergeFrom(before))
}
