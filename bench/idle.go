// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/bench/internal/source"
	"github.com/tarn-dev/tarn/bench/internal/synthetic"
)

// The trial of an idle informer has few Pods, whatever the others have, and a usual
// number of updates behind it.
const (
	idlePods    = 10
	idleUpdates = 1100
)

// tryIdle measures what an informer costs that has nothing to do.
func tryIdle(ctx context.Context, s *subject) error {
	f := &feed{subject: s}
	if err := f.ask(ctx, source.Updates{Count: idleUpdates, Rate: f.Effort.Rate}); err != nil {
		return err
	}
	if err := f.await(ctx, idleUpdates); err != nil {
		return err
	}
	http.DefaultClient.CloseIdleConnections()
	s.Values[goroutines] = float64(fewestGoroutines())
	s.Values[idleHeap] = s.heapOfCache()
	return nil
}

// fewestGoroutines waits until the goroutines that began or ended something are gone.
func fewestGoroutines() int {
	fewest := runtime.NumGoroutine()
	for begin := time.Now(); time.Since(begin) < 20*look; time.Sleep(look) {
		fewest = min(fewest, runtime.NumGoroutine())
	}
	return fewest
}

// await returns when the cache has the last of so many updates.
func (f *feed) await(ctx context.Context, updates int) error {
	last := strconv.Itoa(synthetic.FirstVersion + f.Pods + updates)
	for begin := time.Now(); time.Since(begin) < eventsLimit; {
		time.Sleep(20 * look) // reads are seldom, so that no cache takes the Pods for often read
		for i := range f.Pods {
			id, pod := f.cluster.Identity(i), f.example()
			if err := f.cache.Get(ctx, client.ObjectKey{Namespace: id.Namespace, Name: id.Name}, pod); err != nil {
				return err
			}
			if pod.GetResourceVersion() == last {
				return nil
			}
		}
	}
	return fmt.Errorf("%s does not have the last of %d updates after %v", f.Cache, updates, eventsLimit)
}
