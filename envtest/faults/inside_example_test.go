// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/envtest/faults"
)

// Faults inside the server: the storage of a resource, and etcd.
func Example_inside() {
	ctx := context.Background()
	injector := faults.New()
	env := envtest.New(envtest.Options{Faults: injector})
	if err := env.Start(ctx); err != nil {
		log.Fatal(err)
	}
	defer func() { _ = env.Stop() }()
	c, err := client.New(env.Config(), client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	create := func(name string) error {
		return c.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}})
	}

	full, err := injector.Inject(
		faults.Rule{Station: faults.Storage, Verb: "create", Resource: "configmaps", Times: 1}, faults.Respond(errors.New("the disk is full")))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(create("one"))
	fmt.Println(create("one"), full.Hits())

	// The watch cache of a resource begins anew, if there is one.
	anew, err := injector.Inject(faults.Rule{Station: faults.Storage, Verb: "watch", Resource: "configmaps", Times: 1}, faults.Expire())
	if err != nil {
		log.Fatal(err)
	}
	defer anew.End()

	if err := env.StopEtcd(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("without etcd:", create("two") != nil)
	if err := env.StartEtcd(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("with etcd:", create("two"))
	// Output:
	// the disk is full
	// <nil> 1
	// without etcd: true
	// with etcd: <nil>
}
