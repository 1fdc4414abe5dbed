// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Manager is a controller-runtime manager with one reconciler, on Tarn's cache.
// One line tells it from a manager on controller-runtime's own.
//
//	go run ./examples/manager
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
)

func main() { cluster.Main(cluster.Use(run)) }

func run(ctx context.Context, c *cluster.Cluster, out io.Writer) (err error) {
	namespace, err := c.CreateNamespace(ctx, "manager")
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(c.Config, ctrl.Options{
		NewCache: cache.New, // the one line
		Cache:    cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
		Metrics:  metricsserver.Options{BindAddress: "0"}, // no port
	})
	if err != nil {
		return fmt.Errorf("make the manager: %w", err)
	}
	greeter := &greeter{Client: mgr.GetClient(), greeted: make(chan string)}
	err = ctrl.NewControllerManagedBy(mgr).
		For(&corev1.ConfigMap{}).
		WithOptions(controller.Options{SkipNameValidation: ptr.To(true)}). // a test may run this twice
		Complete(greeter)
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

	hello := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "hello"},
		Data:       map[string]string{"name": "Alice"},
	}
	if err := c.Create(ctx, hello); err != nil {
		return err
	}
	if err := greeter.show(ctx, "Hello, Alice!", out); err != nil {
		return err
	}
	patch := client.RawPatch(client.Merge.Type(), []byte(`{"data":{"name":"Bob"}}`))
	if err := c.Client.Patch(ctx, hello, patch); err != nil {
		return fmt.Errorf("change ConfigMap hello: %w", err)
	}
	return greeter.show(ctx, "Hello, Bob!", out)
}

// greeter writes a greeting into every ConfigMap that has a name in it.
type greeter struct {
	client.Client             // reads from the cache, writes to the API server
	greeted       chan string // the greetings that the cache holds
}

// Reconcile implements reconcile.Reconciler.
func (g *greeter) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	configMap := &corev1.ConfigMap{}
	if err := g.Get(ctx, req.NamespacedName, configMap); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	name, ok := configMap.Data["name"]
	if !ok {
		return ctrl.Result{}, nil
	}
	greeting := "Hello, " + name + "!"
	if configMap.Data["greeting"] == greeting {
		select {
		case g.greeted <- greeting:
		case <-ctx.Done():
		}
		return ctrl.Result{}, nil
	}
	before := configMap.DeepCopy()
	configMap.Data["greeting"] = greeting
	// The change comes back through the watch, and is reconciled again.
	return ctrl.Result{}, g.Patch(ctx, configMap, client.MergeFrom(before))
}

// show waits until the cache holds a greeting, and prints it.
func (g *greeter) show(ctx context.Context, greeting string, out io.Writer) error {
	for {
		select {
		case got := <-g.greeted:
			if got == greeting {
				fmt.Fprintln(out, "reconciled:", got)
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("wait for %q: %w", greeting, context.Cause(ctx))
		}
	}
}
