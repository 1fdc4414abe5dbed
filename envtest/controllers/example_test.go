// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/envtest/controllers"
)

// A namespace goes, with all that is in it.
func ExampleNamed() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	env := envtest.New(envtest.Options{
		Controllers: controllers.Named("namespace-controller"),
	})
	if err := env.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	defer env.Stop()
	core := kubernetes.NewForConfigOrDie(env.Config()).CoreV1()
	if _, err := core.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}, metav1.CreateOptions{}); err != nil {
		fmt.Println(err)
		return
	}
	if _, err := core.Secrets("team").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "of-the-team"}}, metav1.CreateOptions{}); err != nil {
		fmt.Println(err)
		return
	}
	if err := core.Namespaces().Delete(ctx, "team", metav1.DeleteOptions{}); err != nil {
		fmt.Println(err)
		return
	}
	gone := func(ctx context.Context) (bool, error) {
		_, err := core.Namespaces().Get(ctx, "team", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	}
	fmt.Println("gone:", wait.PollUntilContextCancel(ctx, time.Millisecond, true, gone) == nil)
	// Output: gone: true
}
