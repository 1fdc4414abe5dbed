// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cacher_test

import (
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
)

// BenchmarkSmallList lists a namespace or a node of 20,000 Pods, not older than a revision that the Cacher has,
// so that what is measured is its own work.
func BenchmarkSmallList(b *testing.B) {
	const objects, listed = 20_000, 40
	compare(b, subjects(), func(b *testing.B, s subject) {
		f := newFeed(objects)
		store := s.start(b, f.config())
		opts := storage.ListOptions{
			ResourceVersion: strconv.Itoa(objects), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
			Recursive: true, Predicate: storage.Everything,
		}
		opts.Predicate.GetAttrs = servicePodAttributes
		b.Run("Scope=Namespace", func(b *testing.B) {
			opts := opts
			opts.Predicate.IndexFields = []string{"metadata.namespace"}
			ctx := request.WithRequestInfo(b.Context(), &request.RequestInfo{Namespace: f.list[7].Namespace})
			before := cpuTime(b)
			for range b.N {
				list := &corev1.PodList{}
				if err := store.GetList(ctx, podPrefix+f.list[7].Namespace+"/", opts, list); err != nil || len(list.Items) != listed {
					b.Fatal(len(list.Items), err)
				}
			}
			b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
		})
		b.Run("Scope=Node", func(b *testing.B) {
			opts := opts
			opts.Predicate.IndexFields = []string{"spec.nodeName"}
			before := cpuTime(b)
			for i := range b.N {
				list := &corev1.PodList{}
				opts.Predicate.Field = fields.OneTermEqualSelector("spec.nodeName", f.list[i%objects].Spec.NodeName)
				if err := store.GetList(b.Context(), podPrefix, opts, list); err != nil || len(list.Items) == 0 {
					b.Fatal(len(list.Items), err)
				}
			}
			b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
		})
	})
}
