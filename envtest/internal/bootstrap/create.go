// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// bootstrapWorkers is how many objects are created at a time. An etcd in another process takes so many as quickly as four.
const bootstrapWorkers = 16

// creations are objects to create, in any order.
type creations []func(context.Context) error

// creator is the part of a typed client that creates objects.
type creator[T metav1.Object] interface {
	Create(ctx context.Context, obj T, opts metav1.CreateOptions) (T, error)
}

// putter is a creator that updates objects too.
type putter[T metav1.Object] interface {
	creator[T]
	Update(ctx context.Context, obj T, opts metav1.UpdateOptions) (T, error)
}

// create adds an object, which may be there: an etcd that a server has used before has it.
func create[T metav1.Object](all *creations, client creator[T], obj T) {
	*all = append(*all, func(ctx context.Context) error {
		_, err := client.Create(ctx, obj, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return naming(err, obj)
	})
}

// put adds an object that is updated if it is there: it says something about this server.
func put[T metav1.Object](all *creations, client putter[T], obj T) {
	*all = append(*all, func(ctx context.Context) error {
		_, err := client.Create(ctx, obj, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			_, err = client.Update(ctx, obj, metav1.UpdateOptions{})
		}
		return naming(err, obj)
	})
}

func naming(err error, obj metav1.Object) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("create %T %s: %w", obj, obj.GetName(), err)
}

// run creates them, and returns when all are there or what went wrong.
func (c creations) run(ctx context.Context) error {
	var wg sync.WaitGroup
	work, errs := make(chan int), make([]error, len(c))
	for range min(bootstrapWorkers, len(c)) {
		wg.Go(func() {
			for i := range work {
				errs[i] = c[i](ctx)
			}
		})
	}
	for i := range c {
		work <- i
	}
	close(work)
	wg.Wait()
	return errors.Join(errs...)
}
