// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/tarn-dev/tarn/examples/internal/cluster"
	"github.com/tarn-dev/tarn/pkg/cache"
)

//go:embed lake.yaml
var lakeCRD []byte

// installCRD creates the definition of Lakes, and waits until the server serves
// them. It has no Go type either.
func installCRD(ctx context.Context, c *cluster.Cluster) (err error) {
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(lakeCRD, &crd.Object); err != nil {
		return fmt.Errorf("read lake.yaml: %w", err)
	}
	definitions, err := cache.New(c.Config, cache.Options{
		ByObject: map[client.Object]cache.ByObject{
			crd.DeepCopy(): {Field: fields.OneTermEqualSelector("metadata.name", crd.GetName())},
		},
	})
	if err != nil {
		return err
	}
	informer, err := definitions.GetInformer(ctx, crd)
	if err != nil {
		return err
	}
	established := make(chan struct{}, 1)
	if _, err := informer.AddEventHandler(whenEstablished(established)); err != nil {
		return err
	}
	stop, err := cluster.RunCache(ctx, definitions, crd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()

	if err := c.Create(ctx, crd); err != nil {
		return err
	}
	select {
	case <-established:
		return waitDiscovered(ctx, c)
	case <-ctx.Done():
		return fmt.Errorf("wait for CRD %s to be established: %w", crd.GetName(), context.Cause(ctx))
	}
}

// whenEstablished tells once, or more often, that a definition is established.
func whenEstablished(tell chan<- struct{}) toolscache.ResourceEventHandler {
	check := func(obj any) {
		if !isEstablished(obj.(*unstructured.Unstructured)) {
			return
		}
		select {
		case tell <- struct{}{}:
		default: // told before
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    check,
		UpdateFunc: func(_, obj any) { check(obj) },
	}
}

func isEstablished(crd *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions") // none yet: not established
	for _, c := range conditions {
		condition, ok := c.(map[string]any)
		if ok && condition["type"] == "Established" && condition["status"] == "True" {
			return true
		}
	}
	return false
}

// waitDiscovered asks until discovery knows Lakes. A server publishes a definition
// there a moment after it is established, and nothing can be watched that tells.
func waitDiscovered(ctx context.Context, c *cluster.Cluster) error {
	err := wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(context.Context) (bool, error) {
		_, err := c.Client.RESTMapper().RESTMapping(lakeKind.GroupKind(), lakeKind.Version)
		if meta.IsNoMatchError(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return fmt.Errorf("wait for %s in discovery: %w", lakeKind, errors.Join(err, context.Cause(ctx)))
	}
	return nil
}
