// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/client-go/kubernetes"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/pkg/cacher"
)

// Another watch cache for some resources, as with kube-apiserver's --watch-cache-sizes=pods#1000,events#0.
func ExampleStorageDecorator() {
	usual, small := envtest.Cacher(cacher.Options{}), envtest.Cacher(cacher.Options{HistoryEvents: 1000})
	env := envtest.New(envtest.Options{
		StorageDecorator: func(resource schema.GroupResource, store generic.StorageDecorator) generic.StorageDecorator {
			switch resource {
			case schema.GroupResource{Resource: "pods"}:
				return small(resource, store)
			case schema.GroupResource{Resource: "events"}:
				return envtest.Undecorated(resource, store)
			}
			return usual(resource, store)
		},
	})
	ctx := context.Background()
	if err := env.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	defer env.Stop()
	namespace, err := kubernetes.NewForConfigOrDie(env.Config()).CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(namespace.Name)
	// Output: default
}
