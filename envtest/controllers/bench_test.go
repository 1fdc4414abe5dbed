// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/envtest"
)

// BenchmarkNamespace measures from the deletion of a namespace with 100 objects of 20 kinds until it is gone; with
// TARN_REAL_CONTROLLER_MANAGER set, by the real controller.
func BenchmarkNamespace(b *testing.B) {
	ctx, c := benchmark(b, "namespace-controller")
	for i := range b.N {
		b.StopTimer()
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("bench-", b.N, "-", i)}}
		must(b, c.Create(ctx, ns))
		for _, obj := range objectsOfManyKinds(ns.Name, 5) {
			must(b, c.Create(ctx, obj))
		}
		left := leaving(ctx, b, c, &corev1.NamespaceList{}, client.MatchingFields{"metadata.name": ns.Name})
		b.StartTimer()
		must(b, c.Delete(ctx, ns))
		left(1)
	}
}

// BenchmarkTree measures from the deletion of an owner until the 1,000 objects that it owns, over two levels, are gone.
func BenchmarkTree(b *testing.B) {
	ctx, c := benchmark(b, "garbage-collector-controller")
	for range b.N {
		b.StopTimer()
		root := configMap("default", "root")
		must(b, c.Create(ctx, root))
		for i := range 10 {
			branch := owned(configMap("default", fmt.Sprint("branch-", i)), reference(root))
			must(b, c.Create(ctx, branch))
			for j := range 99 {
				must(b, c.Create(ctx, owned(configMap("default", fmt.Sprint("leaf-", i, "-", j)), reference(branch))))
			}
		}
		collect(ctx, b, c)
		left := leaving(ctx, b, c, &corev1.ConfigMapList{}, client.InNamespace("default"))
		b.StartTimer()
		must(b, c.Delete(ctx, root))
		left(1001)
	}
}

// benchmark starts an environment with a controller, ours or the real one, which has done some work when it returns.
func benchmark(b *testing.B, name string) (context.Context, client.WithWatch) {
	b.Helper()
	started := envtest.StartWith(b, envtest.Options{Controllers: chosen(name)})
	ctx, cancel := context.WithTimeout(b.Context(), 10*time.Minute)
	b.Cleanup(cancel)
	c, err := client.NewWithWatch(started.Config(), client.Options{})
	must(b, err)
	if name == "garbage-collector-controller" {
		collect(ctx, b, c)
	}
	b.ResetTimer()
	return ctx, c
}

// collect returns when the collector has collected an object that is made for this, and so has seen those before it.
func collect(ctx context.Context, b *testing.B, c client.Client) {
	b.Helper()
	probe := owned(configMap("default", "probe"), metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "never", UID: "never"})
	must(b, c.Create(ctx, probe))
	must(b, wait.PollUntilContextCancel(ctx, time.Millisecond, true, func(ctx context.Context) (bool, error) {
		return apierrors.IsNotFound(c.Get(ctx, client.ObjectKeyFromObject(probe), probe)), nil
	}))
}

// leaving watches objects, and returns a function that returns when as many of them have been deleted.
func leaving(ctx context.Context, b *testing.B, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) func(n int) {
	b.Helper()
	w, err := c.Watch(ctx, list, opts...)
	must(b, err)
	return func(n int) {
		b.Helper()
		defer w.Stop()
		for n > 0 {
			select {
			case event := <-w.ResultChan():
				if event.Type == watch.Deleted {
					n--
				}
			case <-ctx.Done():
				b.Fatalf("%d objects are still there: %v", n, ctx.Err())
			}
		}
	}
}

// reference is refTo for a ConfigMap.
func reference(owner *corev1.ConfigMap) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
