// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Tuning uses what controller-runtime's options have no word for: it tunes the
// cache, reads metadata out of objects that are cached already, walks a list one
// object at a time, and reads another page by page.
//
//	go run ./examples/tuning
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/examples/internal/cluster"
	"github.com/tarn-dev/tarn/pkg/cache"
)

func main() { cluster.Main(cluster.Use(run)) }

func run(ctx context.Context, c *cluster.Cluster, out io.Writer) (err error) {
	namespace, err := c.CreateNamespace(ctx, "tuning")
	if err != nil {
		return err
	}
	for n := range 5 {
		if err := c.Create(ctx, settings(namespace, fmt.Sprintf("settings-%d", n+1))); err != nil {
			return err
		}
	}
	cfg, watches := countWatches(c.Config)

	newCache := cache.With(cache.Tuning{
		Name:           "tuned",                            // what the cache is called in metrics
		TuningByObject: cache.TuningByObject{Window: 4096}, // how many events behind a handler may be
		ByObject: map[client.Object]cache.TuningByObject{
			&corev1.Node{}: {Storage: cache.Decoded}, // a kind with few objects that are read often
		},
		MetricsByNamespace: true, // each namespace has series of its own
	})
	local, err := newCache(cfg, cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}})
	if err != nil {
		return err
	}
	stop, err := cluster.RunCache(ctx, local, &corev1.ConfigMap{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()

	for _, read := range []func(context.Context, cache.Cache, io.Writer) error{readMetadata, walk, readPages} {
		if err := read(ctx, local, out); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "watches that this took: %d\n", watches.Load())
	return nil
}

// readMetadata needs no watch of its own: the objects are cached already.
func readMetadata(ctx context.Context, c cache.Cache, out io.Writer) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	if err := c.List(ctx, list); err != nil {
		return fmt.Errorf("list the metadata of ConfigMaps: %w", err)
	}
	fmt.Fprintf(out, "metadata of %d ConfigMaps\n", len(list.Items))
	return nil
}

// walk makes one object at a time, and stops at the wanted one.
func walk(ctx context.Context, c cache.Cache, out io.Writer) error {
	for configMap, err := range cache.Iterate(ctx, c, &corev1.ConfigMap{}, client.MatchingLabels{"app": "settings"}) {
		if err != nil {
			return fmt.Errorf("walk over ConfigMaps: %w", err)
		}
		fmt.Fprintf(out, "walked to %s\n", configMap.Name)
		if configMap.Data["name"] == "settings-2" {
			break
		}
	}
	return nil
}

// readPages reads all pages from the state that the first one was read from.
func readPages(ctx context.Context, c cache.Cache, out io.Writer) error {
	page := &corev1.ConfigMapList{}
	for next := ""; ; next = page.Continue {
		if err := c.List(ctx, page, client.Limit(2), client.Continue(next)); err != nil {
			return fmt.Errorf("list a page of ConfigMaps: %w", err)
		}
		remaining := int64(0)
		if page.RemainingItemCount != nil {
			remaining = *page.RemainingItemCount
		}
		fmt.Fprintf(out, "page of %d, %d to come\n", len(page.Items), remaining)
		if page.Continue == "" {
			return nil
		}
	}
}

// countWatches returns a copy of cfg whose clients count the watches that they open.
func countWatches(cfg *rest.Config) (*rest.Config, *atomic.Int64) {
	watches := &atomic.Int64{}
	counting := rest.CopyConfig(cfg)
	counting.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.URL.Query().Get("watch") != "" {
				watches.Add(1)
			}
			return next.RoundTrip(r)
		})
	})
	return counting, watches
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func settings(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": "settings"}},
		Data:       map[string]string{"name": name},
	}
}
