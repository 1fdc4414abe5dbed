// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/signal"
	"github.com/tarn-dev/tarn/pkg/cache"
)

var _ = Describe("Namespaces whose labels match", func() {
	const key = "tarn.dev/tenant"
	var first, second, third, tenant string
	var matching labels.Selector

	// label lets namespaces match, or not any more.
	label := func(ctx context.Context, match bool, namespaces ...string) {
		GinkgoHelper()
		value := "null"
		if match {
			value = fmt.Sprintf("%q", tenant)
		}
		labelNamespaces(ctx, key, value, namespaces)
	}
	made := func(server *rest.Config, opts cache.Options) (cache.Cache, *visitors) {
		GinkgoHelper()
		visited := &visitors{}
		c, err := cache.With(cache.Tuning{Namespaces: matching, NoMetrics: true})(visited.to(server), opts)
		Expect(err).NotTo(HaveOccurred())
		return c, visited
	}
	listen := func(ctx context.Context, c cache.Cache) (*picture, toolscache.ResourceEventHandlerRegistration) {
		GinkgoHelper()
		informer, err := c.GetInformer(ctx, &corev1.ConfigMap{})
		Expect(err).NotTo(HaveOccurred())
		heard := &picture{}
		added, err := informer.AddEventHandler(heard)
		Expect(err).NotTo(HaveOccurred())
		return heard, added
	}
	known := func(p *picture) func() []string {
		return func() []string { versions, _ := p.now(); return slices.Sorted(maps.Keys(versions)) }
	}
	// names lists, as soon as the cache is started.
	names := func(ctx context.Context, c cache.Cache) func() ([]string, error) {
		return func() (found []string, err error) {
			Eventually(func() bool {
				var versions map[string]string
				versions, err = versionsOf(ctx, c, &corev1.ConfigMapList{}, "")
				found = slices.Sorted(maps.Keys(versions))
				return !errors.As(err, new(*cache.ErrCacheNotStarted))
			}).WithPolling(time.Millisecond).Should(BeTrue())
			return found, err
		}
	}

	BeforeEach(func(ctx SpecContext) {
		first, second, third = newNamespace(ctx), newNamespace(ctx), newNamespace(ctx)
		tenant, matching = first, labels.SelectorFromSet(labels.Set{key: first})
		create(ctx, configMap(first, "one", "odd"), configMap(second, "two", "even"), configMap(third, "three", "odd"))
	})

	It("are those of the first list, and come and go with their labels", func(ctx SpecContext) {
		label(ctx, true, first, second)
		c, visited := made(cfg, cache.Options{})
		early, added := listen(ctx, c)
		Expect(c.Get(ctx, client.ObjectKey{Namespace: first, Name: "one"}, &corev1.ConfigMap{})).To(MatchError(&cache.ErrCacheNotStarted{}))
		Expect(added.HasSynced()).To(BeFalse(), "before the namespaces are known")
		start(c)
		Expect(names(ctx, c)()).To(ConsistOf(first+"/one", second+"/two"), "a read waits for the namespaces")
		Expect(c.WaitForCacheSync(ctx)).To(BeTrue())
		Eventually(added.HasSyncedChecker().Done()).Should(BeClosed())
		Expect(known(early)()).To(ConsistOf(first+"/one", second+"/two"), "a handler that has synced")
		late, added := listen(ctx, c)
		Eventually(added.HasSynced).Should(BeTrue())
		Expect(late.Heard()).To(Equal(early.Heard()))

		before := visited.Made(third)
		Expect(before).To(BeZero())
		label(ctx, true, third)
		label(ctx, false, first)
		Eventually(known(early)).Should(ConsistOf(second+"/two", third+"/three"))
		Eventually(early.Heard).Should(Equal([]string{"add three", "delete one"}))
		Eventually(visited.Open).Should(ConsistOf("", second, third))
		Expect(added.HasSynced()).To(BeTrue())
		outside := (*cache.OutsideScopeError)(nil)
		err := c.Get(ctx, client.ObjectKey{Namespace: first, Name: "one"}, &corev1.ConfigMap{})
		Expect(errors.As(err, &outside)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(ContainSubstring("any more")))

		Expect(api.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: third}})).To(Succeed())
		label(ctx, false, second)
		Eventually(known(early)).ShouldNot(ContainElement(second + "/two"))
		for _, p := range []*picture{early, late} {
			_, wrong := p.now()
			Expect(wrong).To(BeEmpty())
		}
	})

	It("may be none, and a cache without them has synced", func(ctx SpecContext) {
		c, visited := made(cfg, cache.Options{})
		heard, added := listen(ctx, c)
		start(c)
		Expect(c.WaitForCacheSync(ctx)).To(BeTrue())
		Eventually(added.HasSynced).Should(BeTrue())
		Expect(names(ctx, c)()).To(BeEmpty())
		Expect(visited.Open()).To(ConsistOf(""))
		label(ctx, true, second)
		Eventually(known(heard)).Should(ConsistOf(second + "/two"))
	})

	It("have their settings in DefaultNamespaces, which selects none", func(ctx SpecContext) {
		label(ctx, true, second, third)
		c, visited := made(cfg, cache.Options{DefaultNamespaces: map[string]cache.Config{
			first: {}, second: {LabelSelector: labels.SelectorFromSet(labels.Set{"none": "such"})},
		}})
		start(c)
		Expect(names(ctx, c)()).To(ConsistOf(third + "/three"))
		Expect(visited.Made(first)).To(BeZero())
	})

	It("stay known if the program removes its own informer of Namespaces", func(ctx SpecContext) {
		label(ctx, true, first)
		c, _ := made(cfg, cache.Options{})
		start(c)
		Expect(c.WaitForCacheSync(ctx)).To(BeTrue())
		of := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}}
		Expect(c.Get(ctx, client.ObjectKey{Name: second}, of)).To(Succeed(), "it is cached like other kinds")
		Expect(c.RemoveInformer(ctx, of)).To(Succeed())
		label(ctx, true, second)
		Eventually(names(ctx, c)).Should(ConsistOf(first+"/one", second+"/two"))
	})

	It("change in bursts, and leave nothing behind", func(ctx SpecContext) {
		all := []string{first, second, third}
		for range 17 {
			all = append(all, newNamespace(ctx))
		}
		c, visited := made(cfg, cache.Options{})
		start(c)
		heard, _ := listen(ctx, c)
		for range 3 {
			label(ctx, true, all...)
			Eventually(names(ctx, c)).Should(ConsistOf(first+"/one", second+"/two", third+"/three"))
			Eventually(visited.Open).Should(WithTransform(func(open []string) int { return len(open) }, BeNumerically("<=", 8)), "one watch for most")
			label(ctx, false, all...)
			Eventually(names(ctx, c)).Should(BeEmpty())
			Eventually(visited.Open).Should(ConsistOf(""))
			Eventually(func() map[string]string { versions, _ := heard.now(); return versions }).Should(BeEmpty())
		}
		_, wrong := heard.now()
		Expect(wrong).To(BeEmpty())
	})

	It("are those in which a replica has a term, and leave and enter if that is a new one", func(ctx SpecContext) {
		share := &share{terms: map[string]uint64{first: 1}}
		visited := &visitors{}
		c, err := cache.With(cache.Tuning{Namespaces: labels.Everything(), Shard: share, NoMetrics: true})(visited.to(cfg), cache.Options{})
		Expect(err).NotTo(HaveOccurred())
		start(c)
		Expect(names(ctx, c)()).To(ConsistOf(first + "/one"))
		heard, added := listen(ctx, c)
		Eventually(added.HasSynced).Should(BeTrue())
		share.set(first, 1, second, 1)
		Eventually(known(heard)).Should(ConsistOf(first+"/one", second+"/two"))
		Expect(heard.Heard()).To(Equal([]string{"add one", "add two"}))
		share.set(first, 4, second, 1)
		var told []string
		Eventually(func() []string { told = append(told, heard.Heard()...); return told }).Should(ConsistOf("delete one", "add one"), "it was another's")
		label(ctx, true, third)
		share.set(second, 1)
		Eventually(known(heard)).Should(ConsistOf(second + "/two"))
		share.set()
		Eventually(known(heard)).Should(BeEmpty())
		Eventually(visited.Open).Should(ConsistOf(""))
		Expect(visited.Made(third)).To(BeZero())
		_, wrong := heard.now()
		Expect(wrong).To(BeEmpty())
	})

	It("say why they are not known, and are once they may be listed", func(ctx SpecContext) {
		label(ctx, true, first)
		user := "selects-" + first
		subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}}
		allow := func(resource string) {
			role := metav1.ObjectMeta{Name: user + "-" + resource}
			create(ctx,
				&rbacv1.ClusterRole{ObjectMeta: role, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{"list", "watch"}}}},
				&rbacv1.ClusterRoleBinding{ObjectMeta: role, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name}})
		}
		allow("configmaps")
		as := rest.CopyConfig(cfg)
		as.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
		c, _ := made(as, cache.Options{})
		start(c)
		_, err := names(ctx, c)()
		why := (*cache.NotSyncedError)(nil)
		Expect(errors.As(err, &why)).To(BeTrue(), "%v", err)
		Expect(why.Cause).To(Equal(cache.Forbidden))
		Expect(err).To(MatchError(ContainSubstring("namespaces of the cache are not known")))
		Expect(cache.NotSynced(c)).To(ContainElement(HaveField("Cause", cache.Forbidden)))
		allow("namespaces")
		Eventually(names(ctx, c)).WithTimeout(2 * patience).Should(ConsistOf(first + "/one"))
		Expect(cache.NotSynced(c)).To(BeEmpty())
	})

	It("are refused where they make no sense", func(ctx SpecContext) {
		c, _ := made(cfg, cache.Options{})
		Expect(setNamespaces(ctx, c, first)).To(MatchError(ContainSubstring("whose labels match")))
		_, err := cache.With(cache.Tuning{Namespaces: labels.Everything(), NoMetrics: true})(cfg, cache.Options{})
		Expect(err).To(MatchError(ContainSubstring("selects all")))
		for _, selector := range []labels.Selector{nil, labels.Nothing()} {
			_, err = cache.With(cache.Tuning{Namespaces: selector, Shard: &share{}, NoMetrics: true})(cfg, cache.Options{})
			Expect(err).To(MatchError(ContainSubstring("Shard needs Namespaces")))
		}
		_, err = cache.With(cache.Tuning{Namespaces: labels.Everything(), Shard: byUID{&share{}}, NoMetrics: true})(cfg, cache.Options{})
		Expect(err).To(MatchError(ContainSubstring("the key of the ring is metadata.uid")))
	})
})

// labelNamespaces sets a label of namespaces to a value in JSON.
func labelNamespaces(ctx context.Context, key, value string, namespaces []string) {
	GinkgoHelper()
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, key, value))
	for _, namespace := range namespaces {
		Expect(api.Patch(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, patch)).To(Succeed())
	}
}

// byUID is a share of UIDs.
type byUID struct{ *share }

// Key is a method of a ring.
func (byUID) Key() string { return "metadata.uid" }

// share has the terms of a replica.
type share struct {
	mu      sync.Mutex
	terms   map[string]uint64
	changed signal.Broadcast
}

// Term implements the interface of Tuning.Shard.
func (s *share) Term(namespace string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.terms[namespace]
}

// Changed implements the interface of Tuning.Shard.
func (s *share) Changed() <-chan struct{} { return s.changed.Wait() }

// Member implements the interface of Tuning.Shard.
func (s *share) Member() string { return "a" }

// Members implements the interface of Tuning.Shard.
func (s *share) Members() map[string]string { return map[string]string{"b": "b_1", "a": "a_1"} }

// set sets the terms: namespaces, each with its term.
func (s *share) set(pairs ...any) {
	s.mu.Lock()
	s.terms = map[string]uint64{}
	for i := 0; i < len(pairs); i += 2 {
		s.terms[pairs[i].(string)] = uint64(pairs[i+1].(int))
	}
	s.mu.Unlock()
	s.changed.Notify()
}
