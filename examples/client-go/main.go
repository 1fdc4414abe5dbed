// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Client-go is a program without controller-runtime's manager: it has typed listers and event handlers over Tarn's
// cache, as it would have over a SharedInformerFactory.
//
//	go run ./examples/client-go
package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/tarn-dev/tarn/examples/internal/cluster"
	"github.com/tarn-dev/tarn/pkg/cache"
)

func main() { cluster.Main(cluster.Use(run)) }

func run(ctx context.Context, c *cluster.Cluster, out io.Writer) (err error) {
	namespace, err := c.CreateNamespace(ctx, "client-go")
	if err != nil {
		return err
	}
	i, err := follow(ctx, c.Config, namespace)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, i.stop()) }()
	added := make(chan string)
	registration, err := i.informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
		if configMap := obj.(*corev1.ConfigMap); configMap.Labels["app"] == "settings" {
			added <- configMap.Name
		}
	}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, i.informer.RemoveEventHandler(registration)) }()

	clients, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return err
	}
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings", Labels: map[string]string{"app": "settings"}}}
	if _, err := clients.CoreV1().ConfigMaps(namespace).Create(ctx, settings, metav1.CreateOptions{}); err != nil {
		return err
	}
	select {
	case name := <-added:
		fmt.Fprintf(out, "event: %s was added\n", name)
	case <-ctx.Done():
		return ctx.Err()
	}
	configMaps, err := i.lister.ConfigMaps(namespace).List(labels.SelectorFromSet(labels.Set{"app": "settings"}))
	if err != nil {
		return err
	}
	for _, configMap := range configMaps {
		fmt.Fprintf(out, "lister: %s\n", configMap.Name)
	}
	return nil
}

// informers are what a program keeps.
type informers struct {
	informer toolscache.SharedIndexInformer
	lister   corelisters.ConfigMapLister
	stop     func() error // returns when all goroutines of the cache have ended
}

// follow returns an informer that has synced.
func follow(ctx context.Context, cfg *rest.Config, namespace string) (*informers, error) {
	c, err := cache.New(cfg, cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}})
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- c.Start(running) }()
	stop := func() error { cancel(); return <-ended }

	informer, err := c.GetInformer(ctx, &corev1.ConfigMap{}) // returns when it has synced
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	shared := informer.(toolscache.SharedIndexInformer)
	lister := corelisters.NewConfigMapLister(shared.GetIndexer())
	return &informers{shared, lister, stop}, nil
}
