// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package shard_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/specs"
	"github.com/tarn-dev/tarn/pkg/cache"
)

// partCache runs a cache that keeps the part of a replica of a kind, by its example. It counts the events of a handler.
func partCache(ctx context.Context, of *replica, kind client.Object, opts cache.Options) (c cache.Cache, heard func() map[string]bool) {
	GinkgoHelper()
	c, err := cache.With(cache.Tuning{NoMetrics: true, ByObject: map[client.Object]cache.TuningByObject{
		kind: {Whole: []client.ListOptions{{FieldSelector: of.Selector()}}},
	}})(cfg, opts)
	Expect(err).NotTo(HaveOccurred())
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	DeferCleanup(func() {
		stop()
		Eventually(ended).Should(Receive(Succeed()))
	})
	informer, err := c.GetInformer(ctx, kind)
	Expect(err).NotTo(HaveOccurred())
	var mu sync.Mutex
	names := map[string]bool{}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			mu.Lock()
			defer mu.Unlock()
			names[obj.(client.Object).GetName()] = true
		},
		DeleteFunc: func(obj any) {
			if missed, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = missed.Obj
			}
			mu.Lock()
			defer mu.Unlock()
			delete(names, obj.(client.Object).GetName())
		},
	})
	Expect(err).NotTo(HaveOccurred())
	return c, func() map[string]bool {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(names)
	}
}

var _ = DescribeTable("A kind by part, by another key", func(ctx SpecContext, field string) {
	namespace, life := specs.Namespace(ctx, api, "key-"), context.WithoutCancel(ctx)
	for i := range 40 {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("object-%d", i)}}
		if i > 0 { // one has no label
			object.Labels = map[string]string{"example.com/tenant": fmt.Sprintf("tenant-%d", i%10)}
		}
		Expect(api.Create(ctx, object)).To(Succeed())
	}
	a, b := run(life, newRing(namespace, "a", field)), run(life, newRing(namespace, "b", field))
	heard := map[*replica]func() map[string]bool{}
	for _, r := range []*replica{a, b} {
		_, heard[r] = partCache(life, r, &corev1.ConfigMap{}, cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}})
	}
	// has expects that each object is where its key is. It returns an object of each replica.
	has := func(replicas ...*replica) (of map[string]client.Object) {
		GinkgoHelper()
		Eventually(func(g Gomega) {
			list, want := &corev1.ConfigMapList{}, map[string]map[string]bool{}
			of = map[string]client.Object{}
			g.Expect(api.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
			for _, r := range replicas {
				want[r.Member()] = map[string]bool{}
			}
			for _, object := range list.Items {
				owner := replicas[0].Owner(replicas[0].KeyOf(&object))
				g.Expect(want).To(HaveKey(owner))
				want[owner][object.Name], of[owner] = true, &object
			}
			for _, r := range replicas {
				g.Expect(heard[r]()).To(And(Not(BeEmpty()), Equal(want[r.Member()])))
			}
		}).Should(Succeed())
		return of
	}
	if of := has(a, b); field != "metadata.uid" {
		mine, theirs := of["a"], of["b"]
		mine.SetLabels(theirs.GetLabels())
		Expect(api.Update(ctx, mine)).To(Succeed())
		Expect(a.Owner(a.KeyOf(mine))).To(Equal("b"))
		has(a, b)
	}
	b.stop()
	Eventually(b.ended).Should(Receive(Succeed()))
	b.ended <- nil
	has(a)
},
	Entry("a label", "metadata.labels['example.com/tenant']"),
	Entry("the UID", "metadata.uid"),
)

var _ = Describe("A cluster-scoped kind by part", func() {
	It("is where its keys are, and moves with them", func(ctx SpecContext) {
		namespace, all := specs.Namespace(ctx, api, "part-"), map[string]bool{}
		for i := range 40 {
			role := &rbacv1.ClusterRole{}
			role.Name = fmt.Sprintf("%s-%d", namespace, i)
			Expect(api.Create(ctx, role)).To(Succeed())
			DeferCleanup(func(ctx SpecContext) { Expect(api.Delete(ctx, role)).To(Succeed()) })
			all[role.Name] = true
		}
		life := context.WithoutCancel(ctx)
		a, b := start(life, namespace, "a"), start(life, namespace, "b")
		of := map[*replica]cache.Cache{}
		heard := map[*replica]func() map[string]bool{}
		for _, r := range []*replica{a, b} {
			of[r], heard[r] = partCache(life, r, &rbacv1.ClusterRole{}, cache.Options{})
		}
		// mine are those of the names that a replica owns.
		mine := func(r *replica) map[string]bool {
			names := maps.Clone(all)
			maps.DeleteFunc(names, func(name string, _ bool) bool { return r.Owner(name) != r.Member() })
			return names
		}
		has := func(r *replica, want map[string]bool) {
			GinkgoHelper()
			Eventually(func(g Gomega) {
				list, names := &rbacv1.ClusterRoleList{}, map[string]bool{}
				g.Expect(of[r].List(ctx, list)).To(Succeed())
				for _, role := range list.Items {
					names[role.Name] = true
				}
				told := heard[r]()
				g.Expect(told).To(Equal(names))
				maps.DeleteFunc(names, func(name string, _ bool) bool { return !all[name] })
				g.Expect(names).To(Equal(want))
			}).Should(Succeed())
		}
		Eventually(func() int { return len(mine(a)) * len(mine(b)) }).Should(BeNumerically(">", 0))
		ofA, ofB := mine(a), mine(b)
		Expect(len(ofA) + len(ofB)).To(Equal(len(all)))
		has(a, ofA)
		has(b, ofB)

		theirs := client.ObjectKey{Name: slices.Sorted(maps.Keys(ofB))[0]}
		err := of[a].Get(ctx, theirs, &rbacv1.ClusterRole{})
		Expect(errors.As(err, new(*cache.OutsideScopeError))).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(ContainSubstring("the keys of member a of ring shop")))
		Expect(of[b].Get(ctx, theirs, &rbacv1.ClusterRole{})).To(Succeed())

		b.stop()
		Eventually(b.ended).Should(Receive(Succeed()))
		b.ended <- nil
		has(a, all)
		Expect(of[a].Get(ctx, theirs, &rbacv1.ClusterRole{})).To(Succeed())
		has(b, map[string]bool{})

		again := start(life, namespace, "b")
		Eventually(func() string { return a.Owner(theirs.Name) }).Should(Equal("b"))
		has(a, ofA)
		of[again], heard[again] = partCache(life, again, &rbacv1.ClusterRole{}, cache.Options{})
		has(again, ofB)
	})

	It("has no Fields, and its selector is no part of another one", func(ctx SpecContext) {
		ring := newRing("default", "a", "")
		for problem, tuned := range map[string]cache.TuningByObject{
			"nobody would be told of what becomes whole": {Whole: []client.ListOptions{{FieldSelector: ring.Selector()}}, Fields: []string{"rules"}},
			"the field the ring is known to the API server alone": {Whole: []client.ListOptions{
				{FieldSelector: fields.AndSelectors(ring.Selector(), fields.OneTermEqualSelector("metadata.name", "x"))},
			}},
			"one field selector at most may change": {Whole: []client.ListOptions{{FieldSelector: ring.Selector()}, {FieldSelector: ring.Selector()}}},
		} {
			_, err := cache.With(cache.Tuning{NoMetrics: true, ByObject: map[client.Object]cache.TuningByObject{&rbacv1.ClusterRole{}: tuned}})(cfg, cache.Options{})
			Expect(err).To(MatchError(ContainSubstring(problem)))
		}
	})
})
