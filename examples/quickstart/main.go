// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Quickstart follows objects from etcd through an API server into the informer
// cache, its event handlers and its indexed reads, and prints each step with the
// time that it took.
//
//	go run ./examples/quickstart
//	go run ./examples/quickstart -kubeconfig ~/.kube/config
//
// The first starts etcd and an API server in this process. The second works on
// any cluster, in a namespace of its own, which it removes at the end.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/examples/internal/cluster"
	"github.com/tarn-dev/tarn/pkg/cache"
)

func main() { cluster.Main(run) }

func run(ctx context.Context, flags cluster.Flags, out io.Writer) error {
	p := newPrinter(out)
	p.section("An API server with its etcd")
	c, err := cluster.Open(ctx, flags.Kubeconfig)
	if err != nil {
		return err
	}
	if c.Embedded() {
		p.step("start", "etcd and API server in this process", "")
	} else {
		p.step("connect", "to "+c.Config.Host, "")
	}

	t := &tour{cluster: c, print: p}
	if err := t.all(ctx); err != nil {
		return errors.Join(err, c.Close(ctx))
	}
	p.start()
	if err := c.Close(ctx); err != nil {
		return err
	}
	if c.Embedded() {
		p.step("stop", "API server and etcd", "")
	} else {
		p.step("delete", "Namespace "+t.namespace, "")
	}
	return p.err
}

// tour is what the steps share.
type tour struct {
	cluster   *cluster.Cluster
	print     *printer
	namespace string
	cache     cache.Cache
	events    *events
	stop      func() error
}

func (t *tour) all(ctx context.Context) (err error) {
	defer func() {
		if t.stop != nil { // a step failed
			err = errors.Join(err, t.stop())
		}
	}()
	for _, chapter := range []func(context.Context) error{
		t.create, t.startCache, t.read, t.update, t.delete, t.end,
	} {
		if err := chapter(ctx); err != nil {
			return err
		}
	}
	return nil
}

// create writes objects to the API server.
func (t *tour) create(ctx context.Context) (err error) {
	t.print.section("Objects are written")
	if t.namespace, err = t.cluster.CreateNamespace(ctx, "quickstart"); err != nil {
		return err
	}
	t.print.step("create", "Namespace "+t.namespace, "")

	for _, pod := range []*corev1.Pod{
		newPod(t.namespace, "web-2", "web", "nginx"),
		newPod(t.namespace, "db-1", "db", "postgres"),
		newPod(t.namespace, "web-1", "web", "nginx"),
	} {
		t.print.start()
		if err := t.cluster.Create(ctx, pod); err != nil {
			return err
		}
		t.print.step("create", fmt.Sprintf("Pod %s, app=%s, image %s", pod.Name, pod.Labels["app"], pod.Spec.Containers[0].Image), pod.ResourceVersion)
	}
	return nil
}

// startCache makes a cache with an index and an event handler, and starts it.
func (t *tour) startCache(ctx context.Context) (err error) {
	t.print.section("The cache starts")
	t.cache, err = cache.New(t.cluster.Config, cache.Options{
		// Without this the cache would hold the Pods of all namespaces.
		DefaultNamespaces: map[string]cache.Config{t.namespace: {}},
	})
	if err != nil {
		return err
	}
	if err := t.cache.IndexField(ctx, &corev1.Pod{}, "image", images); err != nil {
		return err
	}
	informer, err := t.cache.GetInformer(ctx, &corev1.Pod{})
	if err != nil {
		return err
	}
	t.events = newEvents(ctx)
	if _, err := informer.AddEventHandler(t.events); err != nil {
		return err
	}
	t.print.step("make", `cache, field index "image", event handler`, "")

	t.print.start()
	stop, err := cluster.RunCache(ctx, t.cache, &corev1.Pod{})
	if err != nil {
		return err
	}
	t.stop = func() error {
		t.events.close()
		return stop()
	}
	t.print.step("start", "cache: its informer has listed, and watches", "")

	pods, err := t.events.adds(ctx, 3)
	if err != nil {
		return err
	}
	for _, e := range pods {
		t.print.event(e, "add "+e.name)
	}
	return nil
}

// read shows the ways to read. None of them asks the API server.
func (t *tour) read(ctx context.Context) error {
	t.print.section("Reads are answered from memory")
	if err := t.get(ctx, "web-1"); err != nil {
		return err
	}
	if err := t.list(ctx, "namespace "+t.namespace); err != nil {
		return err
	}
	if err := t.list(ctx, "label app=web", client.MatchingLabels{"app": "web"}); err != nil {
		return err
	}
	return t.list(ctx, "field image=nginx", client.MatchingFields{"image": "nginx"})
}

// update changes a Pod, and reads what the change did.
func (t *tour) update(ctx context.Context) error {
	t.print.section("A change arrives")
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = t.namespace, "web-2"
	patch := []byte(`{"spec":{"containers":[{"name":"main","image":"httpd"}]}}`)
	t.print.start()
	if err := t.cluster.Client.Patch(ctx, pod, client.RawPatch(types.StrategicMergePatchType, patch)); err != nil {
		return fmt.Errorf("update Pod web-2: %w", err)
	}
	t.print.step("update", "Pod web-2, image httpd", pod.ResourceVersion)

	e, err := t.events.next(ctx, func(e event) bool { return e.kind == updated && e.version == pod.ResourceVersion })
	if err != nil {
		return err
	}
	t.print.event(e, "update web-2, before it was rv "+e.before)
	if err := t.get(ctx, "web-2"); err != nil {
		return err
	}
	if err := t.list(ctx, "field image=httpd", client.MatchingFields{"image": "httpd"}); err != nil {
		return err
	}
	return t.list(ctx, "field image=nginx", client.MatchingFields{"image": "nginx"})
}

// delete removes a Pod, and reads what is left.
func (t *tour) delete(ctx context.Context) error {
	t.print.section("A deletion arrives")
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = t.namespace, "db-1"
	t.print.start()
	if err := t.cluster.Client.Delete(ctx, pod); err != nil {
		return fmt.Errorf("delete Pod db-1: %w", err)
	}
	t.print.step("delete", "Pod db-1", "")

	e, err := t.events.next(ctx, func(e event) bool { return e.kind == deleted && e.name == "db-1" })
	if err != nil {
		return err
	}
	t.print.event(e, "delete db-1")
	if err := t.get(ctx, "db-1"); err != nil {
		return err
	}
	return t.list(ctx, "namespace "+t.namespace)
}

// end stops the cache.
func (t *tour) end(context.Context) error {
	t.print.section("The end")
	stop := t.stop
	t.stop = nil
	if err := stop(); err != nil {
		return fmt.Errorf("stop the cache: %w", err)
	}
	t.print.step("stop", "cache: every goroutine has ended", "")
	return nil
}

// get reads a Pod by key; NotFound is a result too.
func (t *tour) get(ctx context.Context, name string) error {
	pod := &corev1.Pod{}
	key := client.ObjectKey{Namespace: t.namespace, Name: name}
	t.print.start()
	err := t.cache.Get(ctx, key, pod)
	switch {
	case apierrors.IsNotFound(err):
		t.print.step("get", fmt.Sprintf("%s: not found", key), "")
	case err != nil:
		return fmt.Errorf("get Pod %s: %w", key, err)
	default:
		t.print.step("get", fmt.Sprintf("%s: image %s", key, pod.Spec.Containers[0].Image), pod.ResourceVersion)
	}
	return nil
}

// list reads the Pods of the namespace that the options select.
func (t *tour) list(ctx context.Context, by string, opts ...client.ListOption) error {
	pods := &corev1.PodList{}
	t.print.start()
	if err := t.cache.List(ctx, pods, append(opts, client.InNamespace(t.namespace))...); err != nil {
		return fmt.Errorf("list Pods by %s: %w", by, err)
	}
	t.print.step("list", fmt.Sprintf("by %s: %s", by, names(pods)), pods.ResourceVersion)
	return nil
}
