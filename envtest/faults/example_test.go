// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/envtest/faults"
	"github.com/tarn-dev/tarn/pkg/cache"
)

// The cache of a controller stays behind, until the test lets it see one event after the other.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	injector := faults.New()
	env := envtest.New(envtest.Options{Faults: injector})
	if err := env.Start(ctx); err != nil {
		log.Fatal(err)
	}
	defer func() { _ = env.Stop() }()
	reads, err := cache.New(env.Config(), cache.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- reads.Start(ctx) }()
	writes, err := client.New(env.Config(), client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	seen := func() int {
		var found corev1.ConfigMapList
		if err := reads.List(ctx, &found, client.InNamespace("default")); err != nil {
			log.Fatal(err)
		}
		return len(found.Items)
	}
	fmt.Println("before:", seen()) // and the watch is open

	hold, err := injector.Hold(faults.Rule{Verb: "watch", Resource: "configmaps"})
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"one", "two"} {
		if err := writes.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("after two were created:", seen())
	if err := hold.Wait(ctx, 2); err != nil {
		log.Fatal(err)
	}
	fmt.Println("held:", hold.Held())
	hold.End()

	// And a write whose answer is lost.
	lost, err := injector.Inject(faults.Rule{Verb: "create", Resource: "configmaps", Name: "three", Times: 1}, faults.DropAnswer())
	if err != nil {
		log.Fatal(err)
	}
	three := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "three"}}
	err = writes.Create(ctx, three)
	fmt.Println("lost:", err != nil && lost.Hits() == 1, "again:", apierrors.IsAlreadyExists(writes.Create(ctx, three.DeepCopy())))

	cancel()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
	// Output:
	// before: 0
	// after two were created: 0
	// held: [ADDED configmaps default/one ADDED configmaps default/two]
	// lost: true again: true
}
