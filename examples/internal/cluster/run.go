// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Use makes a program of f: it opens the cluster of the flags, calls f with it,
// and closes it.
func Use(f func(ctx context.Context, c *Cluster, out io.Writer) error) func(context.Context, Flags, io.Writer) error {
	return func(ctx context.Context, flags Flags, out io.Writer) error {
		c, err := Open(ctx, flags.Kubeconfig)
		if err != nil {
			return err
		}
		return errors.Join(f(ctx, c, out), c.Close(ctx))
	}
}

// RunCache starts a cache in a goroutine and waits until the informers that it
// has been asked for have synced, among them that of obj. The function that it
// returns stops the cache, and returns when all its goroutines have ended.
func RunCache(ctx context.Context, c cache.Cache, obj client.Object) (stop func() error, err error) {
	if _, err := c.GetInformer(ctx, obj); err != nil {
		return nil, fmt.Errorf("get an informer of %T: %w", obj, err)
	}
	// It outlives ctx, so that it can be asked what it waited for; stop ends it.
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- c.Start(running) }()
	stop = func() error {
		cancel()
		return <-ended
	}
	if c.WaitForCacheSync(ctx) {
		return stop, nil
	}
	_, reason := c.GetInformer(ctx, obj) // says what the informer waits for
	return nil, errors.Join(errors.New("the cache did not sync"), reason, stop())
}
