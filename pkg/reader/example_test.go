// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader_test

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/index"
	"github.com/tarn-dev/tarn/pkg/reader"
)

// A program that has an informer of client-go reads from it as from a cache: sorted, selected, and as copies.
func ExampleStoreOf() {
	indexer := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
	for _, name := range []string{"web", "db"} {
		_ = indexer.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": name}}})
	}
	pods := corev1.SchemeGroupVersion.WithKind("Pod")
	fields := index.NewFields(pods, logr.Discard())
	r := reader.New(reader.Options{Store: reader.StoreOf(indexer, fields), GVK: pods, Fields: fields})

	var all, some corev1.PodList
	fmt.Println(r.List(context.Background(), &all, client.InNamespace("shop")), all.Items[0].Name, all.Items[1].Name)
	fmt.Println(r.List(context.Background(), &some, client.MatchingLabels{"app": "web"}), len(some.Items))
	// Output:
	// <nil> db web
	// <nil> 1
}

// shopPods returns a reader of two Pods.
func shopPods() *reader.CacheReader {
	indexer := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
	for _, name := range []string{"web", "db"} {
		_ = indexer.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}})
	}
	pods := corev1.SchemeGroupVersion.WithKind("Pod")
	fields := index.NewFields(pods, logr.Discard())
	return reader.New(reader.Options{Store: reader.StoreOf(indexer, fields), GVK: pods, Fields: fields})
}

// Lists of several readers are one list; a walk makes one object at a time, and a look takes no part in the figures.
func ExampleList() {
	ctx, pods, list := context.Background(), shopPods(), &corev1.PodList{}
	fmt.Println(reader.List(ctx, list, &client.ListOptions{}, pods), len(list.Items))
	for pod, err := range reader.Iterate(ctx, &corev1.Pod{}, &client.ListOptions{}, pods) {
		fmt.Println(pod.GetName(), err)
	}
	fmt.Println(pods.Look(ctx, list, &client.ListOptions{Limit: 1}), list.Items[0].Name)
	// Output:
	// <nil> 2
	// db <nil>
	// web <nil>
	// <nil> db
}

// A plan says whether an index answers a list.
func ExampleCacheReader_Plan() {
	var plan reader.Plan
	plan, err := shopPods().Plan(client.MatchingLabels{"app": "web"})
	fmt.Println(plan.By, plan.Candidates, plan.Objects, err)
	// Output: scan 2 2 <nil>
}
