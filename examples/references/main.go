// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// References is an operator that copies values out of Secrets which ConfigMaps name, as external-secrets does between
// Secrets. It caches the Secrets that it reads and no others, so it needs no rule for listing Secrets: a Role with their
// resourceNames is enough. What it reads wakes it.
//
//	go run ./examples/references
package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/tarn-dev/tarn/examples/internal/cluster"
	"github.com/tarn-dev/tarn/pkg/cache"
	"github.com/tarn-dev/tarn/pkg/lease"
)

func main() { cluster.Main(cluster.Use(run)) }

func run(ctx context.Context, c *cluster.Cluster, out io.Writer) (err error) {
	namespace, err := c.CreateNamespace(ctx, "references")
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(c.Config, ctrl.Options{
		NewCache: cache.New,
		Cache:    cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
		Metrics:  metricsserver.Options{BindAddress: "0"}, // no port
	})
	if err != nil {
		return fmt.Errorf("make the manager: %w", err)
	}
	refs, err := lease.NewReferences[ctrl.Request](mgr.GetCache())
	if err != nil {
		return err
	}
	copier := &copier{Client: mgr.GetClient(), refs: refs, copied: make(chan string)}
	err = ctrl.NewControllerManagedBy(mgr).
		For(&corev1.ConfigMap{}).
		WithOptions(controller.Options{SkipNameValidation: ptr.To(true)}). // a test may run this twice
		WatchesRawSource(refs.Source()).
		Complete(refs.Reconciler(copier))
	if err != nil {
		return fmt.Errorf("make the controller: %w", err)
	}

	running, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(running) }()
	defer func() {
		cancel()
		err = errors.Join(err, <-ended)
	}()
	return copier.show(ctx, c, namespace, out)
}

// copier copies the value of a Secret into each ConfigMap that names one.
type copier struct {
	client.Client
	refs   *lease.References[ctrl.Request]
	copied chan string // the values that ConfigMaps have
}

// Reconcile implements reconcile.Reconciler.
func (r *copier) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	claim, secret := &corev1.ConfigMap{}, &corev1.Secret{}
	if err := r.Get(ctx, req.NamespacedName, claim); err != nil || claim.Data["secret"] == "" {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	key := client.ObjectKey{Namespace: req.Namespace, Name: claim.Data["secret"]}
	if err := r.refs.Get(ctx, key, secret); err != nil { // the request is woken when the Secret is created, and when it changes
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	value := string(secret.Data["public"])
	if claim.Data["value"] == value {
		select {
		case r.copied <- value:
		case <-ctx.Done():
		}
		return ctrl.Result{}, nil
	}
	before := claim.DeepCopy()
	claim.Data["value"] = value
	return ctrl.Result{}, r.Patch(ctx, claim, client.MergeFrom(before))
}

// show creates and changes a Secret, and prints what is copied.
func (r *copier) show(ctx context.Context, c *cluster.Cluster, namespace string, out io.Writer) error {
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace, Name: name} }
	secret := &corev1.Secret{ObjectMeta: meta("source"), Data: map[string][]byte{"public": []byte("one")}}
	if err := c.Create(ctx, &corev1.ConfigMap{ObjectMeta: meta("claim"), Data: map[string]string{"secret": "source"}}); err != nil {
		return err
	}
	if err := c.Create(ctx, secret); err != nil {
		return err
	}
	if err := r.wait(ctx, "one", out); err != nil {
		return err
	}
	patch := client.RawPatch(client.Merge.Type(), []byte(`{"stringData":{"public":"two"}}`))
	if err := c.Client.Patch(ctx, secret, patch); err != nil {
		return fmt.Errorf("change the Secret: %w", err)
	}
	return r.wait(ctx, "two", out)
}

// wait waits until a ConfigMap has a value, and prints it.
func (r *copier) wait(ctx context.Context, value string, out io.Writer) error {
	for {
		select {
		case got := <-r.copied:
			if got == value {
				fmt.Fprintln(out, "copied:", got)
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("wait for %q: %w", value, context.Cause(ctx))
		}
	}
}
