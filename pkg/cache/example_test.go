// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/cache"
)

// The checks of a manager's health name each kind that is not cached, and why.
func ExampleReady() {
	serve := func(mgr ctrl.Manager) error {
		return errors.Join(mgr.AddReadyzCheck("cache", cache.Ready(mgr.GetCache())), mgr.AddHealthzCheck("cache", cache.Live(mgr.GetCache())))
	}
	_ = serve
}

// A program that may not list a kind learns which role is missing.
func ExampleNotSynced() {
	tell := func(c cache.Cache) {
		for _, reason := range cache.NotSynced(c) {
			fmt.Println(reason)
			if reason.Cause == cache.Forbidden {
				fmt.Println(reason.Manifest())
			}
		}
	}
	_ = tell
}

// A read says how old the cache may be, and what to do if it does not hold the object.
func ExampleMaxAge() {
	get := func(ctx context.Context, c client.Reader, key client.ObjectKey) error {
		err := c.Get(ctx, key, &corev1.ConfigMap{}, cache.MaxAge(2*time.Minute), cache.ReadThrough())
		stale, outside, reason := (*cache.StaleError)(nil), (*cache.OutsideScopeError)(nil), (*cache.NotSyncedError)(nil)
		switch {
		case errors.As(err, &stale):
			return fmt.Errorf("told nothing for %s: %w", stale.Age, err)
		case errors.As(err, &outside):
			return fmt.Errorf("the cache holds %s: %w", outside.Scope, err)
		case errors.As(err, &reason) && !reason.Cause.Mends():
			return fmt.Errorf("somebody has to do something: %w", err)
		}
		return err
	}
	_ = get
}

// The Secrets of two programs are cached whole, and of others the metadata.
func ExampleWith() {
	made := func(name string) client.ListOptions {
		return client.ListOptions{LabelSelector: labels.SelectorFromSet(labels.Set{"app.kubernetes.io/managed-by": name})}
	}
	tuning := cache.Tuning{ByObject: map[client.Object]cache.TuningByObject{
		&corev1.Secret{}: {Whole: []client.ListOptions{made("issuer"), made("importer")}, Fields: []string{"metadata"}},
	}}
	_ = ctrl.Options{NewCache: cache.With(tuning)}
}
