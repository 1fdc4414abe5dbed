// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestIndexFieldTwiceComparesTheFunctionsOnTheObjectsThereAre declares an index again with another
// function, when the objects are there already and nothing changes any more.
func TestIndexFieldTwiceComparesTheFunctionsOnTheObjectsThereAre(t *testing.T) {
	for name, newInformer := range map[string]func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer{
		"ours": nil, "client-go's": toolscache.NewSharedIndexInformer,
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var logged []string
			o := testOptions()
			o.Logger = funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{})
			o.NewInformer = newInformer
			entry, err := NewMap(o).Get(t.Context(), podKey)
			g.Expect(err).NotTo(HaveOccurred())
			for _, name := range []string{"one", "two"} {
				g.Expect(entry.Informer.GetStore().Add(&corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: corev1.PodSpec{NodeName: "one"},
				})).To(Succeed())
			}
			byNode := func(obj client.Object) []string { return []string{obj.(*corev1.Pod).Spec.NodeName} }
			g.Expect(entry.IndexField("field", byNode)).To(Succeed())
			g.Expect(entry.IndexField("field", byNode)).To(Succeed())
			g.Expect(logged).To(BeEmpty())
			g.Expect(entry.IndexField("field", func(obj client.Object) []string { return []string{obj.GetName()} })).To(Succeed())
			g.Expect(logged).To(ConsistOf(And(ContainSubstring("two functions index one field differently"), ContainSubstring(`"two"`))))
		})
	}
}
