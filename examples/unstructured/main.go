// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Unstructured caches a custom resource for which there is no Go type: it installs
// a CRD, and lists its objects by a field that it indexes.
//
//	go run ./examples/unstructured
package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/examples/internal/cluster"
	"github.com/tarn-dev/tarn/pkg/cache"
)

func main() { cluster.Main(cluster.Use(run)) }

var lakeKind = schema.GroupVersionKind{Group: "examples.tarn.dev", Version: "v1", Kind: "Lake"}

func run(ctx context.Context, c *cluster.Cluster, out io.Writer) (err error) {
	if err := installCRD(ctx, c); err != nil {
		return err
	}
	namespace, err := c.CreateNamespace(ctx, "unstructured")
	if err != nil {
		return err
	}
	for _, lake := range []*unstructured.Unstructured{
		newLake(namespace, "saimaa", "Finland", 86),
		newLake(namespace, "bled", "Slovenia", 30),
		newLake(namespace, "inari", "Finland", 92),
	} {
		if err := c.Create(ctx, lake); err != nil {
			return err
		}
	}

	lakes, err := cache.New(c.Config, cache.Options{
		DefaultNamespaces: map[string]cache.Config{namespace: {}},
	})
	if err != nil {
		return err
	}
	lake := &unstructured.Unstructured{}
	lake.SetGroupVersionKind(lakeKind)
	if err := lakes.IndexField(ctx, lake, "spec.country", country); err != nil {
		return err
	}
	stop, err := cluster.RunCache(ctx, lakes, lake)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()

	if err := lakes.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "bled"}, lake); err != nil {
		return fmt.Errorf("get Lake bled: %w", err)
	}
	fmt.Fprintln(out, "by key:", describe(lake))

	finnish := &unstructured.UnstructuredList{}
	finnish.SetGroupVersionKind(lakeKind.GroupVersion().WithKind("LakeList"))
	if err := lakes.List(ctx, finnish, client.MatchingFields{"spec.country": "Finland"}); err != nil {
		return fmt.Errorf("list Lakes in Finland: %w", err)
	}
	for i := range finnish.Items {
		fmt.Fprintln(out, "by field:", describe(&finnish.Items[i]))
	}
	return nil
}

func newLake(namespace, name, country string, depth int64) *unstructured.Unstructured {
	lake := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"country": country, "depth": depth},
	}}
	lake.SetGroupVersionKind(lakeKind)
	lake.SetNamespace(namespace)
	lake.SetName(name)
	return lake
}

// country is the value of the field index.
func country(obj client.Object) []string {
	value, found, err := unstructured.NestedString(obj.(*unstructured.Unstructured).Object, "spec", "country")
	if !found || err != nil {
		return nil
	}
	return []string{value}
}

func describe(lake *unstructured.Unstructured) string {
	depth, _, _ := unstructured.NestedInt64(lake.Object, "spec", "depth") // zero if it is not known
	return fmt.Sprintf("%s %s, %d m deep", lake.GetKind(), lake.GetName(), depth)
}
