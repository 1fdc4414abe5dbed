// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/tarn-dev/tarn/pkg/informers"
)

// A program without controller-runtime's cache has a map of its own: informers of one scope, by kind and representation.
func ExampleMap() {
	list := func(ctx context.Context, config *rest.Config) error {
		httpClient, err := rest.HTTPClientFor(config)
		if err != nil {
			return err
		}
		mapper, err := apiutil.NewDynamicRESTMapper(config, httpClient)
		if err != nil {
			return err
		}
		shared := &informers.Shared{
			Name: "shop", Config: config, HTTPClient: httpClient, Scheme: scheme.Scheme, Mapper: mapper,
			Tuning: func(schema.GroupVersionKind) informers.KindTuning {
				return informers.KindTuning{Storage: informers.Flat, OnFailure: informers.Isolate}
			},
		}
		m := informers.NewMap(informers.Options{
			Shared: shared, Namespace: "shop", Selector: informers.Selector{Label: labels.Set{"app": "web"}.AsSelector()},
			EnableWatchBookmarks: true, ResyncPeriod: 10 * time.Hour,
		})
		go func() { _ = m.Start(ctx) }()
		pods := informers.KeyOf(corev1.SchemeGroupVersion.WithKind("Pod"), &corev1.Pod{})
		entry, err := m.Get(ctx, pods)
		if err != nil {
			return err
		}
		if err := entry.WaitForSync(ctx); err != nil {
			return err // says what the informer waits for
		}
		return entry.Reader.List(ctx, &corev1.PodList{})
	}
	_ = list
}

// The error of a wait has a cause.
func ExampleNotSyncedError() {
	key := informers.KeyOf(corev1.SchemeGroupVersion.WithKind("Pod"), &corev1.Pod{})
	var err error = &informers.NotSyncedError{Key: key, Namespace: "shop", Cause: informers.Forbidden, Resource: corev1.SchemeGroupVersion.WithResource("pods")}
	reason := (*informers.NotSyncedError)(nil)
	if errors.As(err, &reason) {
		fmt.Println(reason.Key, reason.Cause, reason.Cause.Mends(), reason.Manifest() != "")
	}
	// Output: Pod (v1) forbidden false true
}
