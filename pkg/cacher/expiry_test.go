// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
)

// TestAListWhileALeaseExpires lists, again and again, while etcd deletes many objects at one
// revision, and watches from where each list was: list and watch together must see all go.
func TestAListWhileALeaseExpires(t *testing.T) {
	const expiring = 400
	g := NewWithT(t)
	f := run(t, implementations()[0])
	ctx := t.Context()
	created := &example.Pod{}
	for n := range expiring {
		pod := &example.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("pod", n)}}
		g.Expect(f.Create(ctx, podKey("ns", pod.Name), pod, created, 2)).To(Succeed())
	}
	atLeast := storage.ListOptions{ResourceVersion: created.ResourceVersion, Predicate: storage.Everything, Recursive: true}
	g.Expect(f.GetList(ctx, podPrefix, atLeast, &example.PodList{})).To(Succeed())
	parts := map[string]*example.PodList{} // by resource version, lists that hold some of the objects
	for complete := false; !complete; {
		list := &example.PodList{}
		opts := storage.ListOptions{ResourceVersion: "0", Predicate: storage.Everything, Recursive: true}
		g.Expect(f.GetList(ctx, podPrefix, opts, list)).To(Succeed())
		if complete = len(list.Items) == 0; len(list.Items) < expiring {
			parts[list.ResourceVersion] = list
		}
	}
	for version, list := range parts {
		left := map[string]bool{}
		for _, pod := range list.Items {
			left[pod.Name] = true
		}
		w, err := f.Watch(ctx, podPrefix, storage.ListOptions{ResourceVersion: version, Predicate: storage.Everything, Recursive: true})
		g.Expect(err).NotTo(HaveOccurred())
		for len(left) > 0 {
			var event watch.Event
			g.Eventually(w.ResultChan(), "10s").Should(Receive(&event), "%d objects of the list at %s never go", len(left), version)
			g.Expect(event.Type).To(Equal(watch.Deleted))
			delete(left, event.Object.(metav1.Object).GetName())
		}
		w.Stop()
	}
}
