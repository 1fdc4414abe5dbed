// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Shards is an operator whose replicas share the work: each caches and reconciles the namespaces that it owns, and writes its name into
// their ConfigMaps. Three replicas run in this process; then one leaves.
//
//	go run ./examples/shards
package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/examples/internal/cluster"
)

func main() { cluster.Main(cluster.Use(run)) }

func run(ctx context.Context, c *cluster.Cluster, out io.Writer) error {
	home, err := c.CreateNamespace(ctx, "shards")
	if err != nil {
		return err
	}
	tenants := map[string]string{tenantLabel: home}
	for i := range 12 {
		name, err := c.CreateNamespace(ctx, fmt.Sprintf("tenant-%d", i))
		if err != nil {
			return err
		}
		if err := c.Client.Patch(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, given(home)); err != nil {
			return err
		}
		if err := c.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "work", Labels: tenants}}); err != nil {
			return err
		}
	}
	replicas := map[string]*replica{}
	defer func() {
		for _, r := range replicas {
			r.stop()
		}
	}()
	for _, member := range []string{"a", "b", "c"} {
		if replicas[member], err = startReplica(ctx, c.Config, member, home); err != nil {
			return err
		}
	}
	if err := show(ctx, c.Client, tenants, replicas, out); err != nil {
		return err
	}
	if err := replicas["b"].stop(); err != nil {
		return err
	}
	delete(replicas, "b")
	fmt.Fprintln(out, "b leaves")
	return show(ctx, c.Client, tenants, replicas, out)
}

// show waits until the owner of each namespace has written its name, and prints how many ConfigMaps each has.
func show(ctx context.Context, c client.Client, tenants map[string]string, replicas map[string]*replica, out io.Writer) error {
	counts := map[string]int{}
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		clear(counts)
		all := &corev1.ConfigMapList{}
		if err := c.List(ctx, all, client.MatchingLabels(tenants)); err != nil {
			return false, err
		}
		for _, each := range all.Items {
			counts[each.Data["replica"]]++
			for _, r := range replicas {
				if len(r.ring.Members()) != len(replicas) || r.ring.Owner(each.Namespace) != each.Data["replica"] {
					return false, nil
				}
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the replicas, which have written %v: %w", counts, err)
	}
	words := []string{}
	for _, member := range slices.Sorted(maps.Keys(counts)) {
		words = append(words, fmt.Sprintf("%s: %d", member, counts[member]))
	}
	fmt.Fprintln(out, strings.Join(words, ", "))
	return nil
}
