// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package envtest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/pkg/cache"
)

// BenchmarkFirstOwnedObject measures from the creation of a definition until a controller that runs for it has seen, in
// its cache, the first object that it made for the first custom resource: the test of a controller does this, with
// controller-runtime's cache and with ours.
func BenchmarkFirstOwnedObject(b *testing.B) {
	onEachWatchCache(b, func(b *testing.B, opts envtest.Options) {
		for _, c := range []struct {
			name string
			make crcache.NewCacheFunc
		}{{"controller-runtime", crcache.New}, {"tarn", cache.New}} {
			b.Run("cache="+c.name, func(b *testing.B) { benchmarkFirstOwnedObject(b, opts, c.make) })
		}
	})
}

func benchmarkFirstOwnedObject(b *testing.B, opts envtest.Options, newCache crcache.NewCacheFunc) {
	env := envtest.StartWith(b, opts)
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	b.ResetTimer()
	var waited, longest time.Duration
	for i := range b.N {
		group := fmt.Sprintf("g%d.example.com", i)
		crd := benchmarkCRD(b, group)
		began := time.Now()
		must(b, env.InstallCRDs(ctx, crd))
		running, stop := context.WithCancel(ctx)
		manager, seen := ownerManager(b, env, newCache, schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Widget"})
		ended := make(chan error, 1)
		go func() { ended <- manager.Start(running) }()
		must(b, manager.GetClient().Create(ctx, newWidget(group)))
		select {
		case <-seen:
		case err := <-ended:
			b.Fatalf("the manager ended: %v", err)
		case <-ctx.Done():
			b.Fatal("the controller never saw the object that it made")
		}
		took := time.Since(began)
		waited, longest = waited+took, max(longest, took)
		b.StopTimer()
		stop()
		must(b, <-ended)
		b.StartTimer()
	}
	reportMilliseconds(b, waited, "ms/seen")
	b.ReportMetric(float64(longest.Microseconds())/1000, "ms/slowest")
}

func newWidget(group string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/v1", "kind": "Widget",
		"metadata": map[string]any{"name": "one", "namespace": "default"}, "spec": map[string]any{"size": int64(2)},
	}}
}

// ownerManager returns a manager with a controller that makes a ConfigMap for each object of a kind, and a channel that is
// closed when it has seen one.
func ownerManager(
	b *testing.B, env *envtest.Environment, newCache crcache.NewCacheFunc, kind schema.GroupVersionKind,
) (ctrl.Manager, <-chan struct{}) {
	b.Helper()
	manager, err := ctrl.NewManager(env.Config(), ctrl.Options{
		NewCache: newCache, Metrics: server.Options{BindAddress: "0"}, Logger: logr.Discard(),
		Controller: crconfig.Controller{SkipNameValidation: ptr.To(true)},
	})
	must(b, err)
	owner := &unstructured.Unstructured{}
	owner.SetGroupVersionKind(kind)
	seen := make(chan struct{})
	done := false // one worker reconciles
	must(b, ctrl.NewControllerManagedBy(manager).Named(kind.Group).For(owner).Owns(&corev1.ConfigMap{}).Complete(
		reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
			owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: req.Name + "." + kind.Group}}
			err := manager.GetClient().Get(ctx, client.ObjectKeyFromObject(owned), owned)
			switch {
			case err == nil && !done:
				done = true
				close(seen)
			case client.IgnoreNotFound(err) == nil && err != nil:
				return reconcile.Result{}, createOwned(ctx, manager.GetClient(), kind, req, owned)
			}
			return reconcile.Result{}, err
		})))
	return manager, seen
}

// createOwned makes the ConfigMap of the object that is to be reconciled.
func createOwned(ctx context.Context, c client.Client, kind schema.GroupVersionKind, req reconcile.Request, owned *corev1.ConfigMap) error {
	owner := &unstructured.Unstructured{}
	owner.SetGroupVersionKind(kind)
	if err := c.Get(ctx, req.NamespacedName, owner); err != nil {
		return err
	}
	owned.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, kind)}
	return client.IgnoreAlreadyExists(c.Create(ctx, owned))
}
