// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// bootstrapTimeout is far above the fraction of a second that a healthy server takes.
const bootstrapTimeout = 30 * time.Second

// bootstrapped are the objects that every cluster has. A kube-apiserver makes them itself, but only after it has
// reported that it is ready: who asks at once may find some of them missing.
var bootstrapped = [...]struct {
	resource  string
	object    runtime.Object
	namespace string
	name      string
}{
	{"namespaces", new(corev1.Namespace), metav1.NamespaceNone, metav1.NamespaceDefault},
	{"namespaces", new(corev1.Namespace), metav1.NamespaceNone, metav1.NamespaceSystem},
	{"namespaces", new(corev1.Namespace), metav1.NamespaceNone, metav1.NamespacePublic},
	{"namespaces", new(corev1.Namespace), metav1.NamespaceNone, corev1.NamespaceNodeLease},
	{"services", new(corev1.Service), metav1.NamespaceDefault, "kubernetes"},
}

// waitForBootstrap returns once the server has every object of bootstrapped, or ctx ends.
func waitForBootstrap(ctx context.Context, config *rest.Config) error {
	ctx, cancel := context.WithTimeout(ctx, bootstrapTimeout)
	defer cancel()
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	for _, o := range bootstrapped {
		named := fields.OneTermEqualSelector("metadata.name", o.name)
		source := cache.NewListWatchFromClient(clients.CoreV1().RESTClient(), o.resource, o.namespace, named)
		if _, err := watchtools.UntilWithSync(ctx, source, o.object, nil, exists); err != nil {
			return fmt.Errorf("wait until the server has made %s %s: %w", o.resource, o.name, err)
		}
	}
	return nil
}

// exists is the condition that an object is there.
func exists(event watch.Event) (bool, error) { return event.Type == watch.Added, nil }
