// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Many-namespaces caches two namespaces, one of them in part, and reads them as
// one. A program that may read these namespaces alone needs no permission for the
// whole cluster.
//
//	go run ./examples/many-namespaces
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/examples/internal/cluster"
	"github.com/tarn-dev/tarn/pkg/cache"
)

func main() { cluster.Main(cluster.Use(run)) }

func run(ctx context.Context, c *cluster.Cluster, out io.Writer) (err error) {
	teams, err := fill(ctx, c, "team-a", "team-b", "team-c")
	if err != nil {
		return err
	}
	settings, err := cache.New(c.Config, cache.Options{
		DefaultNamespaces: map[string]cache.Config{
			teams[0]: {}, // all of it
			teams[1]: {LabelSelector: labels.SelectorFromSet(labels.Set{"tier": "gold"})},
		},
	})
	if err != nil {
		return err
	}
	stop, err := cluster.RunCache(ctx, settings, &corev1.Secret{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()

	secrets := &corev1.SecretList{}
	if err := settings.List(ctx, secrets); err != nil {
		return fmt.Errorf("list Secrets of all namespaces: %w", err)
	}
	fmt.Fprintf(out, "all namespaces of the cache: %s\n", names(secrets))
	if err := settings.List(ctx, secrets, client.InNamespace(teams[1])); err != nil {
		return fmt.Errorf("list Secrets in %s: %w", teams[1], err)
	}
	fmt.Fprintf(out, "%s: %s\n", teams[1], names(secrets))

	err = settings.Get(ctx, client.ObjectKey{Namespace: teams[2], Name: "gold"}, &corev1.Secret{})
	if err == nil {
		return fmt.Errorf("namespace %s is in the cache, and should not be", teams[2])
	}
	fmt.Fprintf(out, "%s: %v\n", teams[2], err)
	return nil
}

// fill makes the namespaces, with two Secrets in each, and returns their names.
func fill(ctx context.Context, c *cluster.Cluster, names ...string) ([]string, error) {
	var namespaces []string
	for _, name := range names {
		namespace, err := c.CreateNamespace(ctx, name)
		if err != nil {
			return nil, err
		}
		namespaces = append(namespaces, namespace)
		for _, tier := range []string{"silver", "gold"} {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: tier, Labels: map[string]string{"tier": tier},
			}}
			if err := c.Create(ctx, secret); err != nil {
				return nil, err
			}
		}
	}
	return namespaces, nil
}

// names are the names in the order of the list: sorted, across namespaces too.
func names(list *corev1.SecretList) string {
	var keys []string
	for i := range list.Items {
		keys = append(keys, client.ObjectKeyFromObject(&list.Items[i]).String())
	}
	return strings.Join(keys, " ")
}
