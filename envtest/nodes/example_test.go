// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package nodes_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/envtest/nodes"
)

// A Pod runs, after its container has crashed twice.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	machines := nodes.New(nodes.Options{Count: 2, Schedule: true})
	env := envtest.New(envtest.Options{Controllers: []envtest.Controller{machines.Controller()}})
	if err := env.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	defer env.Stop()

	crash, err := machines.Inject(nodes.Rule{Namespace: "default", Name: "web", Times: 2}, nodes.Crash(1))
	if err != nil {
		fmt.Println(err)
		return
	}
	pods := kubernetes.NewForConfigOrDie(env.Config()).CoreV1().Pods("default")
	web := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/web:1"}}},
	}
	if _, err := pods.Create(ctx, web, metav1.CreateOptions{}); err != nil {
		fmt.Println(err)
		return
	}
	err = wait.PollUntilContextCancel(ctx, time.Millisecond, true, func(ctx context.Context) (bool, error) {
		web, err = pods.Get(ctx, "web", metav1.GetOptions{})
		return err == nil && len(web.Status.ContainerStatuses) > 0 && web.Status.ContainerStatuses[0].RestartCount == 2, err
	})
	fmt.Println(web.Status.Phase, crash.Hits(), err)
	// Output: Running 2 <nil>
}
