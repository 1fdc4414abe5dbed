// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Metadata-only caches the metadata of objects and not the objects: for a program
// that needs names, labels and owners alone.
//
//	go run ./examples/metadata-only
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/examples/internal/cluster"
	"github.com/tarn-dev/tarn/pkg/cache"
)

func main() { cluster.Main(cluster.Use(run)) }

func run(ctx context.Context, c *cluster.Cluster, out io.Writer) (err error) {
	namespace, err := c.CreateNamespace(ctx, "metadata-only")
	if err != nil {
		return err
	}
	for _, name := range []string{"settings-b", "settings-a"} {
		if err := c.Create(ctx, large(namespace, name)); err != nil {
			return err
		}
	}
	metadata, err := cache.New(c.Config, cache.Options{
		DefaultNamespaces: map[string]cache.Config{namespace: {}},
		DefaultTransform:  cache.TransformStripManagedFields(),
	})
	if err != nil {
		return err
	}
	// The kind says what to cache, the Go type says how much of it.
	configMap := &metav1.PartialObjectMetadata{}
	configMap.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	stop, err := cluster.RunCache(ctx, metadata, configMap)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()

	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	if err := metadata.List(ctx, list, client.MatchingLabels{"app": "settings"}); err != nil {
		return fmt.Errorf("list ConfigMaps: %w", err)
	}
	for i := range list.Items {
		if err := compare(ctx, c, &list.Items[i], out); err != nil {
			return err
		}
	}
	return nil
}

// compare prints the size of an object on the server, and in the cache.
func compare(ctx context.Context, c *cluster.Cluster, cached *metav1.PartialObjectMetadata, out io.Writer) error {
	whole := &corev1.ConfigMap{}
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(cached), whole); err != nil {
		return fmt.Errorf("get ConfigMap %s: %w", cached.Name, err)
	}
	onServer, err := json.Marshal(whole)
	if err != nil {
		return err
	}
	inCache, err := json.Marshal(cached)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s %s: %d KiB of JSON on the server, %d bytes of it in the cache\n",
		cached.Kind, cached.Name, len(onServer)>>10, len(inCache))
	return nil
}

func large(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": "settings"}},
		Data:       map[string]string{"blob": strings.Repeat("x", 200<<10)},
	}
}
