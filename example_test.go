// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package tarn_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/pkg/cache"
)

func Example() {
	ctx := context.Background()
	env := envtest.New(envtest.Options{})
	if err := env.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	defer env.Stop()
	if err := readNamespaces(ctx, env.Config()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// default
	// kube-node-lease
	// kube-public
	// kube-system
}

func readNamespaces(ctx context.Context, cfg *rest.Config) (err error) {
	c, err := cache.New(cfg, cache.Options{})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	defer func() { stop(); err = errors.Join(err, <-ended) }()
	if !c.WaitForCacheSync(ctx) {
		return ctx.Err()
	}
	namespaces := &corev1.NamespaceList{}
	if err := c.List(ctx, namespaces); err != nil { // starts an informer, and waits for it
		return err
	}
	for _, namespace := range namespaces.Items {
		fmt.Println(namespace.Name)
	}
	return nil
}

func TestConfigMap(t *testing.T) {
	env := envtest.Start(t) // stops when the test ends
	c, err := client.New(env.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}

	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings"}}
	if err := c.Create(t.Context(), settings); err != nil {
		t.Fatal(err)
	}
	if settings.UID == "" {
		t.Error("the server gave the object no UID")
	}
}
