// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader_test

import (
	"fmt"
	goruntime "runtime"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// heap returns the bytes in use after a collection.
func heap() int {
	goruntime.GC()
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// TestStringsKeptOfReadsKeepLittle keeps a string of 8 bytes of each version of a ConfigMap of
// 256 KiB, read in every way.
func TestStringsKeptOfReadsKeepLittle(t *testing.T) {
	const versions = 100
	key := client.ObjectKey{Namespace: "ns", Name: "a"}
	onEveryStore(t, func(t *testing.T, store string) {
		f := newFixture(t, store, kind{
			gvk: corev1.SchemeGroupVersion.WithKind("ConfigMap"), scope: meta.RESTScopeNameNamespace, example: &corev1.ConfigMap{},
		})
		kept, before := []string{}, heap()
		for version := range versions {
			f.store.put(&corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "ns", Name: "a", ResourceVersion: strconv.Itoa(version + 1),
					Annotations: map[string]string{"small": fmt.Sprintf("annot%03d", version)},
				},
				Data: map[string]string{"small": fmt.Sprintf("small%03d", version), "large": strings.Repeat("large", 50_000) + fmt.Sprint(version)},
			})
			var got, shared corev1.ConfigMap
			var list corev1.ConfigMapList
			var metadata metav1.PartialObjectMetadata
			f.Expect(f.Get(t.Context(), key, &got)).To(Succeed())
			f.Expect(f.Get(t.Context(), key, &metadata)).To(Succeed())
			f.Expect(f.Get(t.Context(), key, &shared, client.UnsafeDisableDeepCopy)).To(Succeed())
			f.Expect(f.List(t.Context(), &list)).To(Succeed())
			kept = append(kept, got.Data["small"], shared.Data["small"], list.Items[0].Data["small"], metadata.Annotations["small"])
		}
		// Reads without a copy share some.
		f.Expect(heap()-before).To(BeNumerically("<", 12<<20), "of %d versions", versions)
		f.Expect(kept[4:8]).To(Equal([]string{"small001", "small001", "small001", "annot001"}))
		goruntime.KeepAlive(f)
	})
}
