// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Live-namespaces is a program whose cache takes in a namespace that is onboarded, and lets go of one that leaves, while it runs.
//
//	go run ./examples/live-namespaces
package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/examples/internal/cluster"
	"github.com/tarn-dev/tarn/pkg/cache"
)

func main() { cluster.Main(cluster.Use(run)) }

func run(ctx context.Context, c *cluster.Cluster, out io.Writer) (err error) {
	var namespaces [2]string
	for i, name := range []string{"shop", "stock"} {
		if namespaces[i], err = c.CreateNamespace(ctx, name); err != nil {
			return err
		}
		settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespaces[i], Name: "settings-of-" + name}}
		if err := c.Create(ctx, settings); err != nil {
			return err
		}
	}
	live, err := cache.With(cache.Tuning{Namespaces: labels.Nothing()})(c.Config, cache.Options{})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- live.Start(running) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	informer, err := live.GetInformer(ctx, &corev1.ConfigMap{})
	if err != nil {
		return err
	}
	events := make(chan string)
	tell := func(what string) func(any) {
		return func(obj any) {
			if gone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			if name := obj.(client.Object).GetName(); name != "kube-root-ca.crt" {
				select {
				case events <- what + " " + name:
				case <-running.Done():
				}
			}
		}
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: tell("add"), DeleteFunc: tell("delete")}); err != nil {
		return err
	}
	// One namespace is onboarded; then the other one is, and the first one leaves.
	for _, of := range [][]string{namespaces[:1], namespaces[:], namespaces[1:]} {
		err := live.(interface {
			SetNamespaces(context.Context, ...string) error
		}).SetNamespaces(ctx, of...)
		if err != nil {
			return err
		}
		select {
		case event := <-events:
			fmt.Fprintln(out, event)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
