// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package index_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/index"
	"github.com/tarn-dev/tarn/pkg/reader"
)

// A program that has an informer of client-go declares a field of its Indexer, and lists by it.
func ExampleFields_Declare() {
	indexer := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
	pods := corev1.SchemeGroupVersion.WithKind("Pod")
	fields := index.NewFields(pods, logr.Discard())
	_ = fields.Declare(indexer, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} })
	for _, node := range []string{"n1", "n2"} {
		_ = indexer.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "on-" + node}, Spec: corev1.PodSpec{NodeName: node}})
	}
	r := reader.New(reader.Options{Store: reader.StoreOf(indexer, fields), GVK: pods, Fields: fields})

	found := &corev1.PodList{}
	fmt.Println(r.List(context.Background(), found, client.MatchingFields{"spec.nodeName": "n2"}), found.Items[0].Name)
	undeclared := (*index.NotIndexedError)(nil)
	err := r.List(context.Background(), found, client.MatchingFields{"status.phase": "Running"})
	fmt.Println(errors.As(err, &undeclared), undeclared.Field)
	// Output:
	// <nil> on-n2
	// true status.phase
}
