// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Read-your-writes runs one controller with three clients: the plain one of controller-runtime, its
// consistent one, and Tarn's. The watch of what the controller writes is late, by nothing, by 50 ms
// and by 500 ms. It prints a table of the results.
//
//	go run ./examples/read-your-writes
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/tarn-dev/tarn/examples/internal/cluster"
	"github.com/tarn-dev/tarn/pkg/cache"
	"github.com/tarn-dev/tarn/pkg/client"
)

func main() { cluster.Main(cluster.Use(run)) }

func run(ctx context.Context, c *cluster.Cluster, out io.Writer) error {
	fmt.Fprintln(out, "| watch is late by | client | children created twice | answers of 409 | reconciles | reads, p99 | done after |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|")
	for _, delay := range []time.Duration{0, 50 * time.Millisecond, 500 * time.Millisecond} {
		for _, s := range setups {
			r, err := try(ctx, c, s, delay, *parents)
			if err != nil {
				return fmt.Errorf("%s, %s late: %w", s.name, delay, err)
			}
			fmt.Fprintf(out, "| %s | %s | %d | %d | %d | %s | %s |\n", delay, s.name, r.twice, r.conflicts, r.reconciles,
				r.p99.Round(time.Microsecond), r.took.Round(10*time.Millisecond))
		}
	}
	return nil
}

// parents is how many objects the controller has to make children for. With 400 of them the times of
// reads without a delay are of enough reads to compare them.
var parents = flag.Int("parents", 16, "so many `parents` need children")

// setup is one way to set up a manager.
type setup struct {
	name string
	set  func(*ctrl.Options)
}

var setups = []setup{
	{"plain", func(o *ctrl.Options) { o.NewCache = cache.New }},
	{"controller-runtime's, consistent", func(o *ctrl.Options) {
		o.Client.Cache = &crclient.CacheOptions{EnableReadYourWritesConsistency: ptr.To(true)}
	}},
	{"Tarn's", func(o *ctrl.Options) { o.NewCache, o.NewClient = cache.New, client.New }},
}

// result is what one run led to.
type result struct {
	twice      int           // children that there were already
	conflicts  int64         // answers of 409
	reconciles int64         // calls of Reconcile
	p99        time.Duration // of the reads
	took       time.Duration // until all parents had their children
}

// try runs the controller in a namespace of its own, until all parents have their children.
func try(ctx context.Context, c *cluster.Cluster, s setup, delay time.Duration, parents int) (_ *result, err error) {
	namespace, err := c.CreateNamespace(ctx, fmt.Sprintf("late-%d-%d", delay.Milliseconds(), slices.IndexFunc(setups, func(o setup) bool { return o.name == s.name })))
	if err != nil {
		return nil, err
	}
	network := &network{delay: delay}
	cfg := rest.CopyConfig(c.Config)
	cfg.QPS = -1 // the table is about reads, and not about a limit of requests
	cfg.Wrap(network.wrap)
	options := ctrl.Options{
		Metrics: server.Options{BindAddress: "0"},
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
	}
	s.set(&options)
	mgr, err := ctrl.NewManager(cfg, options)
	if err != nil {
		return nil, err
	}
	r := &reconciler{client: mgr.GetClient(), left: map[string]bool{}, done: make(chan struct{})}
	if err := r.setUp(mgr); err != nil {
		return nil, err
	}
	for n := range parents {
		p := parent(namespace, n)
		if err := c.Create(ctx, p); err != nil {
			return nil, err
		}
		r.left[p.Name] = true
	}
	begin := time.Now()
	if err := untilDone(ctx, mgr, r.done); err != nil {
		return nil, err
	}
	res := &result{conflicts: network.conflicts.Load(), reconciles: r.reconciles.Load(), p99: r.p99(), took: time.Since(begin)}
	res.twice, err = countTwice(ctx, c.Client, namespace)
	return res, err
}

// untilDone runs a manager until done is closed.
func untilDone(ctx context.Context, mgr ctrl.Manager, done <-chan struct{}) error {
	run, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(run) }()
	select {
	case <-done:
		stop()
		return <-ended
	case err := <-ended:
		return errors.Join(err, context.Cause(ctx))
	}
}

// countTwice asks the server how many children there are beyond one for each slot of a parent.
func countTwice(ctx context.Context, c crclient.Client, namespace string) (twice int, err error) {
	children, slots := &corev1.SecretList{}, map[string]bool{}
	if err := c.List(ctx, children, crclient.InNamespace(namespace)); err != nil {
		return 0, err
	}
	for _, child := range children.Items {
		slots[child.Labels[parentLabel]+"/"+child.Labels[slotLabel]] = true
	}
	return len(children.Items) - len(slots), nil
}
