// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tarn-dev/tarn/envtest"
)

// Specs that share an environment, and a state with which each of them begins.
func ExampleEnvironment_Reset() {
	ctx := context.Background()
	env := envtest.New(envtest.Options{})
	if err := env.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	defer env.Stop()
	secrets := kubernetes.NewForConfigOrDie(env.Config()).CoreV1().Secrets("default")
	show := func(when string) {
		list, err := secrets.List(ctx, metav1.ListOptions{})
		fmt.Println(when, len(list.Items), err)
	}
	make := func(name string) {
		if _, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			fmt.Println(err)
		}
	}

	make("for-all-specs")
	prepared, err := env.Snapshot(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	make("of-a-spec")
	show("in the spec:")
	if err := env.Restore(ctx, prepared); err != nil {
		fmt.Println(err)
		return
	}
	show("in the next spec:")
	if err := env.Reset(ctx, envtest.KeepCRDs()); err != nil {
		fmt.Println(err)
		return
	}
	show("at the end:")
	// Output:
	// in the spec: 2 <nil>
	// in the next spec: 1 <nil>
	// at the end: 0 <nil>
}
