// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Nginx-pod gets and watches one Pod: the cache holds that Pod and no other.
//
//	go run ./examples/nginx-pod
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/examples/internal/cluster"
	"github.com/tarn-dev/tarn/pkg/cache"
)

func main() { cluster.Main(cluster.Use(run)) }

func run(ctx context.Context, c *cluster.Cluster, out io.Writer) (err error) {
	namespace, err := c.CreateNamespace(ctx, "nginx-pod")
	if err != nil {
		return err
	}
	pods, err := cache.New(c.Config, cache.Options{
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}: {
				Namespaces: map[string]cache.Config{namespace: {}},
				Field:      fields.OneTermEqualSelector("metadata.name", "nginx"),
			},
		},
	})
	if err != nil {
		return err
	}
	informer, err := pods.GetInformer(ctx, &corev1.Pod{})
	if err != nil {
		return err
	}
	seen := make(chan string, 16) // more than the changes below: the handler never waits
	if _, err := informer.AddEventHandler(handler(seen)); err != nil {
		return err
	}
	stop, err := cluster.RunCache(ctx, pods, &corev1.Pod{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()

	// The cache was started first: it learns of the Pod from the watch.
	nginx := pod(namespace, "nginx")
	for _, obj := range []client.Object{pod(namespace, "another"), nginx} {
		if err := c.Create(ctx, obj); err != nil {
			return err
		}
	}
	if err := show(ctx, seen, "added", out); err != nil {
		return err
	}
	got := &corev1.Pod{}
	if err := pods.Get(ctx, client.ObjectKeyFromObject(nginx), got); err != nil {
		return fmt.Errorf("get Pod nginx: %w", err)
	}
	fmt.Fprintf(out, "got: %s with image %s\n", got.Name, got.Spec.Containers[0].Image)
	err = pods.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "another"}, got)
	fmt.Fprintf(out, "not in this cache: %v\n", err)

	label := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"tier":"front"}}}`))
	if err := c.Client.Patch(ctx, nginx, label); err != nil {
		return fmt.Errorf("label Pod nginx: %w", err)
	}
	if err := show(ctx, seen, "updated", out); err != nil {
		return err
	}
	if err := c.Client.Delete(ctx, nginx); err != nil {
		return fmt.Errorf("delete Pod nginx: %w", err)
	}
	return show(ctx, seen, "deleted", out)
}

// pod returns a Pod that waits at a gate: no kubelet changes it meanwhile.
func pod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			SchedulingGates: []corev1.PodSchedulingGate{{Name: "tarn.dev/nginx-pod"}},
			Containers:      []corev1.Container{{Name: "main", Image: "nginx:1.29"}},
		},
	}
}

// handler says what happens to the Pod.
func handler(seen chan<- string) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			seen <- fmt.Sprintf("added: %s", obj.(*corev1.Pod).Name)
		},
		UpdateFunc: func(before, after any) {
			seen <- fmt.Sprintf("updated: labels %v, before %v", after.(*corev1.Pod).Labels, before.(*corev1.Pod).Labels)
		},
		DeleteFunc: func(obj any) {
			// After an interrupted watch obj may be a DeletedFinalStateUnknown.
			key, err := toolscache.DeletionHandlingObjectToName(obj)
			if err != nil {
				seen <- err.Error()
				return
			}
			seen <- fmt.Sprintf("deleted: %s", key.Name)
		},
	}
}

// show waits for something of the given kind to happen, and prints it. Other
// things are passed over: a Pod is marked before it is deleted, for instance.
func show(ctx context.Context, seen <-chan string, kind string, out io.Writer) error {
	for {
		select {
		case what := <-seen:
			if strings.HasPrefix(what, kind) {
				fmt.Fprintln(out, what)
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("wait until Pod nginx is %s: %w", kind, context.Cause(ctx))
		}
	}
}
