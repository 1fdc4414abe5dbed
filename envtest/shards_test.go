// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"context"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apisharding "k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/watch"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"

	"github.com/tarn-dev/tarn/envtest"
)

// half returns the shard selector of half of all namespaces, or UIDs.
func half(field string, upper bool) string {
	if upper {
		return fmt.Sprintf("shardRange(object.metadata.%s,'0x8000000000000000','0x10000000000000000')", field)
	}
	return fmt.Sprintf("shardRange(object.metadata.%s,'0x0000000000000000','0x8000000000000000')", field)
}

// selectingServer returns a client of a server with the feature gate ShardedListAndWatch. It skips the spec if the oracle has none.
func selectingServer(ctx context.Context) kubernetes.Interface {
	GinkgoHelper()
	if target.env == nil {
		list, err := target.kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{Limit: 1, ShardSelector: half("namespace", false)})
		Expect(err).NotTo(HaveOccurred())
		if list.ShardInfo == nil {
			Skip("the server knows no shard selectors")
		}
		return target.kube
	}
	gates := utilfeature.DefaultMutableFeatureGate // global to the process
	Expect(gates.Set("ShardedListAndWatch=true")).To(Succeed())
	DeferCleanup(func() { Expect(gates.Set("ShardedListAndWatch=false")).To(Succeed()) })
	env := envtest.New(envtest.Options{})
	Expect(env.Start(ctx)).To(Succeed())
	DeferCleanup(func() { Expect(env.Stop()).To(Succeed()) })
	return kubernetes.NewForConfigOrDie(env.Config())
}

var _ = Describe("shard selectors", Serial, func() {
	DescribeTable("send each object to one half of all", func(ctx SpecContext, field string) {
		server := selectingServer(ctx)
		var namespaces []string
		for range 6 {
			made, err := server.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "shard-"}}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			namespaces = append(namespaces, made.Name)
		}
		valueOf := func(obj *corev1.ConfigMap) string {
			if field == "uid" {
				return string(obj.UID)
			}
			return obj.Namespace
		}
		labelled := "shard=" + namespaces[0]
		create := func(name string) (inHalf [2][]string) {
			for _, namespace := range namespaces {
				obj := configMap(name, "a")
				obj.Labels["shard"] = namespaces[0]
				obj, err := server.CoreV1().ConfigMaps(namespace).Create(ctx, obj, metav1.CreateOptions{})
				Expect(err).NotTo(HaveOccurred())
				of := 0
				if !apisharding.HexLess(apisharding.HashField(valueOf(obj)), "8000000000000000") {
					of = 1
				}
				inHalf[of] = append(inHalf[of], namespace+"/"+name)
			}
			return inHalf
		}
		before := create("before")
		var watches [2]watch.Interface
		for n := range 2 {
			selector := half(field, n == 1)
			list, err := server.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{ShardSelector: selector, LabelSelector: labelled})
			Expect(err).NotTo(HaveOccurred())
			Expect(list.ShardInfo).NotTo(BeNil())
			Expect(strings.ReplaceAll(list.ShardInfo.Selector, " ", "")).To(Equal(selector))
			var names []string
			for _, obj := range list.Items {
				names = append(names, obj.Namespace+"/"+obj.Name)
			}
			Expect(names).To(ConsistOf(before[n]))
			watches[n], err = server.CoreV1().ConfigMaps("").Watch(ctx, metav1.ListOptions{ShardSelector: selector, LabelSelector: labelled, ResourceVersion: list.ResourceVersion})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(watches[n].Stop)
		}
		after := create("after")
		for n, w := range watches {
			var names []string
			for range after[n] {
				obj := next(ctx, w).Object.(*corev1.ConfigMap)
				names = append(names, obj.Namespace+"/"+obj.Name)
			}
			Expect(slices.Sorted(slices.Values(names))).To(Equal(slices.Sorted(slices.Values(after[n]))))
		}
	}, Entry("by namespace", "namespace"), Entry("by UID", "uid"))

	It("are refused if they cannot be understood", func(ctx SpecContext) {
		server := selectingServer(ctx)
		_, err := server.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{ShardSelector: "shardRange(object.metadata.name,'0x0','0x1')"})
		Expect(err).To(MatchError(ContainSubstring("invalid shard selector")))
	})
})
