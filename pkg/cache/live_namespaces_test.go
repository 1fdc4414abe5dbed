// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/cache"
	tarnclient "github.com/tarn-dev/tarn/pkg/client"
)

// setNamespaces sets the namespaces of a cache.
func setNamespaces(ctx context.Context, c cache.Cache, namespaces ...string) error {
	return c.(interface {
		SetNamespaces(context.Context, ...string) error
	}).SetNamespaces(ctx, namespaces...)
}

// visitors counts the requests of a cache by namespace.
type visitors struct {
	counts bool       // the server counts its namespaces; otherwise there are none
	mu     sync.Mutex // guards what follows
	made   map[string]int
	open   map[string]int // watches
}

// to returns the config of a server whose requests are counted.
func (v *visitors) to(server *rest.Config) *rest.Config {
	v.made, v.open = map[string]int{}, map[string]int{}
	server = rest.CopyConfig(server)
	server.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			_, path, _ := strings.Cut(r.URL.Path, "/namespaces/")
			namespace, _, _ := strings.Cut(path, "/")
			if r.Context().Err() != nil {
				return nil, context.Cause(r.Context()) // it is not sent
			}
			v.count(v.made, namespace, 1)
			if !v.counts && strings.HasSuffix(r.URL.Path, "/namespaces") && r.URL.Query().Get("limit") == "1" { // other specs have namespaces, too
				return noNamespaces(r), nil
			}
			if r.URL.Query().Get("watch") != "" {
				v.count(v.open, namespace, 1)
				context.AfterFunc(r.Context(), func() { v.count(v.open, namespace, -1) })
			}
			return next.RoundTrip(r)
		})
	})
	return server
}

// noNamespaces is the answer of a server without namespaces.
func noNamespaces(r *http.Request) *http.Response {
	return &http.Response{
		Request: r, StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(`{"kind":"NamespaceList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`)),
	}
}

func (v *visitors) count(in map[string]int, namespace string, n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if in[namespace] += n; in[namespace] == 0 {
		delete(in, namespace)
	}
}

// Open returns the namespaces with a watch, in order.
func (v *visitors) Open() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Sorted(maps.Keys(v.open))
}

// Made returns how many requests were made for a namespace.
func (v *visitors) Made(namespace string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.made[namespace]
}

// MadeFor returns how many requests were made for some namespaces together.
func (v *visitors) MadeFor(namespaces []string) (made int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, namespace := range namespaces {
		made += v.made[namespace]
	}
	return made
}

// Watches returns how many watches are open.
func (v *visitors) Watches() (open int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, n := range v.open {
		open += n
	}
	return open
}

// picture is an event handler that keeps the versions of the objects of which it was told, and complains about events that do not
// follow from those before.
type picture struct {
	mu       sync.Mutex // guards what follows
	versions map[string]string
	heard    []string
	wrong    []string
}

func (p *picture) tell(what string, obj any, known bool) {
	if missed, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = missed.Obj
	}
	object := obj.(client.Object)
	key := client.ObjectKeyFromObject(object).String()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.versions == nil {
		p.versions = map[string]string{}
	}
	if _, is := p.versions[key]; is != known {
		p.wrong = append(p.wrong, what+" "+key)
	}
	p.heard = append(p.heard, what+" "+object.GetName())
	if p.versions[key] = object.GetResourceVersion(); what == "delete" {
		delete(p.versions, key)
	}
}

func (p *picture) OnAdd(obj any, _ bool) { p.tell("add", obj, false) }
func (p *picture) OnUpdate(_, obj any)   { p.tell("update", obj, true) }
func (p *picture) OnDelete(obj any)      { p.tell("delete", obj, true) }

// Heard returns what the handler has heard, sorted, and forgets it.
func (p *picture) Heard() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	heard := slices.Sorted(slices.Values(p.heard))
	p.heard = nil
	return heard
}

func (p *picture) now() (map[string]string, []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.versions), p.wrong
}

// versionsOf lists what a reader has in some namespaces.
func versionsOf(ctx context.Context, from client.Reader, list client.ObjectList, namespaces ...string) (map[string]string, error) {
	all := map[string]string{}
	for _, namespace := range namespaces {
		list := list.DeepCopyObject().(client.ObjectList)
		if err := from.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return nil, err
		}
		if err := meta.EachListItem(list, func(obj k8sruntime.Object) error {
			m := obj.(client.Object)
			if m.GetName() != "kube-root-ca.crt" {
				all[client.ObjectKeyFromObject(m).String()] = m.GetResourceVersion()
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// ofConfigMaps returns an empty ConfigMap and an empty list in a representation.
func ofConfigMaps(representation string) (client.Object, client.ObjectList) {
	var obj client.Object = &corev1.ConfigMap{}
	var list client.ObjectList = &corev1.ConfigMapList{}
	switch representation {
	case "metadata":
		obj, list = &metav1.PartialObjectMetadata{}, &metav1.PartialObjectMetadataList{}
	case "unstructured":
		obj, list = &unstructured.Unstructured{}, &unstructured.UnstructuredList{}
	default:
		return obj, list
	}
	obj.GetObjectKind().SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	list.GetObjectKind().SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	return obj, list
}

// startedLive runs a cache with live namespaces until the spec ends.
func startedLive(ctx context.Context, tuning cache.Tuning, namespaces ...string) (cache.Cache, *visitors) {
	GinkgoHelper()
	visited, opts := &visitors{}, cache.Options{DefaultNamespaces: map[string]cache.Config{}}
	for _, namespace := range namespaces {
		opts.DefaultNamespaces[namespace] = cache.Config{}
	}
	tuning.Namespaces, tuning.NoMetrics = labels.Nothing(), true
	c, err := cache.With(tuning)(visited.to(cfg), opts)
	Expect(err).NotTo(HaveOccurred())
	start(c)
	Expect(c.WaitForCacheSync(ctx)).To(BeTrue())
	return c, visited
}

var _ = Describe("Namespaces that are set while the cache runs", func() {
	var first, second, third string
	BeforeEach(func(ctx SpecContext) {
		first, second, third = newNamespace(ctx), newNamespace(ctx), newNamespace(ctx)
		create(ctx, configMap(first, "one", "odd"), configMap(second, "two", "even"), configMap(third, "three", "odd"))
	})

	listen := func(ctx context.Context, c cache.Cache, obj client.Object) (*picture, toolscache.ResourceEventHandlerRegistration) {
		GinkgoHelper()
		informer, err := c.GetInformer(ctx, obj)
		Expect(err).NotTo(HaveOccurred())
		heard := &picture{}
		added, err := informer.AddEventHandler(heard)
		Expect(err).NotTo(HaveOccurred())
		Eventually(added.HasSynced).Should(BeTrue())
		return heard, added
	}

	DescribeTable("tell handlers of what enters and leaves, and of nothing that stays",
		func(ctx SpecContext, representation string, storage cache.Storage) {
			c, visited := startedLive(ctx, cache.Tuning{TuningByObject: cache.TuningByObject{Storage: storage}}, first, second)
			obj, list := ofConfigMaps(representation)
			heard, added := listen(ctx, c, obj)
			Expect(heard.Heard()).To(Equal([]string{"add one", "add two"}))

			Expect(setNamespaces(ctx, c, second, third)).To(Succeed())
			Expect(added.HasSynced()).To(BeTrue())
			Eventually(func() []string { known, _ := heard.now(); return slices.Sorted(maps.Keys(known)) }).Should(ConsistOf(second+"/two", third+"/three"))
			Eventually(visited.Open).Should(ConsistOf(second, third))
			Expect(heard.Heard()).To(Equal([]string{"add three", "delete one"}))
			Expect(c.WaitForCacheSync(ctx)).To(BeTrue())
			Expect(versionsOf(ctx, c, list, "")).To(Equal(must(versionsOf(ctx, api, list, second, third))))
			Expect(added.HasSynced()).To(BeTrue())
			Eventually(added.HasSyncedChecker().Done()).Should(BeClosed())

			before := visited.Made(first)
			create(ctx, configMap(first, "unseen", "odd"), configMap(third, "seen", "odd"))
			Eventually(heard.Heard).Should(Equal([]string{"add seen"}))
			Expect(visited.Made(first)).To(Equal(before))
			_, wrong := heard.now()
			Expect(wrong).To(BeEmpty())

			Expect(setNamespaces(ctx, c)).To(Succeed())
			Eventually(func() []string { known, _ := heard.now(); return slices.Collect(maps.Keys(known)) }).Should(BeEmpty())
			Eventually(visited.Open).Should(BeEmpty())
			Expect(versionsOf(ctx, c, list, "")).To(BeEmpty())
		},
		Entry("of objects", "structured", cache.Flat),
		Entry("of unstructured objects", "unstructured", cache.Flat),
		Entry("of metadata", "metadata", cache.Flat),
		Entry("of decoded objects", "structured", cache.Decoded),
		Entry("of objects in one watch", "structured", cache.OneWatch),
		Entry("of metadata in one watch", "metadata", cache.OneWatch),
		Entry("of metadata apart", "metadata", cache.SeparateMetadata),
	)

	It("pass on the last state of what leaves, to a handler that is late as well", func(ctx SpecContext) {
		c, _ := startedLive(ctx, cache.Tuning{TuningByObject: cache.TuningByObject{Window: 1}}, first, second)
		informer, err := c.GetInformer(ctx, &corev1.ConfigMap{})
		Expect(err).NotTo(HaveOccurred())
		begun, goOn, last := make(chan struct{}), make(chan struct{}), make(chan any, 2)
		once := sync.OnceFunc(func() { close(begun); <-goOn })
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(obj any) {
				if obj.(client.Object).GetName() == "one" {
					once()
				}
			},
			DeleteFunc: func(obj any) { last <- obj },
		})
		Expect(err).NotTo(HaveOccurred())
		Eventually(begun).Should(BeClosed()) // what it was not told of needs no deletion
		Expect(setNamespaces(ctx, c, second)).To(Succeed())
		close(goOn)
		var told any
		Eventually(last).Should(Receive(&told))
		if missed, ok := told.(toolscache.DeletedFinalStateUnknown); ok {
			Expect(missed.Key).To(Equal(first + "/one"))
			told = missed.Obj
		}
		Expect(told.(*corev1.ConfigMap).Data).To(Equal(map[string]string{"set": "odd"}))
		Consistently(last, "200ms").ShouldNot(Receive())
	})

	It("are read when they enter again, and handlers are told of that after the end", func(ctx SpecContext) {
		c, visited := startedLive(ctx, cache.Tuning{}, first)
		informer, err := c.GetInformer(ctx, &corev1.ConfigMap{})
		Expect(err).NotTo(HaveOccurred())
		goOn, heard := make(chan struct{}), &picture{}
		release := sync.OnceFunc(func() { close(goOn) })
		DeferCleanup(release)
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { heard.OnAdd(obj, false); <-goOn },
			UpdateFunc: heard.OnUpdate, DeleteFunc: heard.OnDelete,
		})
		Expect(err).NotTo(HaveOccurred())
		Eventually(heard.Heard).Should(Equal([]string{"add one"}))
		Expect(setNamespaces(ctx, c, second)).To(Succeed())
		Expect(setNamespaces(ctx, c, first)).To(Succeed())
		Expect(setNamespaces(ctx, c)).To(Succeed())
		Expect(setNamespaces(ctx, c, first)).To(Succeed())
		Expect(c.WaitForCacheSync(ctx)).To(BeTrue())
		Expect(c.Get(ctx, client.ObjectKey{Namespace: first, Name: "one"}, &corev1.ConfigMap{})).To(Succeed(), "a handler may read, too")
		Expect(visited.Open()).To(ContainElement(first))
		told := heard.Heard()
		Expect(told).NotTo(ContainElement(ContainSubstring("one")), "until the handler returns")
		release()
		Eventually(func() []string { told = append(told, heard.Heard()...); return told }).Should(ContainElements("delete one", "add one"))
		_, wrong := heard.now()
		Expect(wrong).To(BeEmpty())
	})

	It("say what is outside, and what is not inside any more", func(ctx SpecContext) {
		c, _ := startedLive(ctx, cache.Tuning{}, first, second)
		get := func(namespace string) error {
			return c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "one"}, &corev1.ConfigMap{})
		}
		Expect(get(first)).To(Succeed())
		Expect(setNamespaces(ctx, c, second)).To(Succeed())
		outside := (*cache.OutsideScopeError)(nil)
		err := get(first)
		Expect(errors.As(err, &outside)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(And(ContainSubstring("any more"), ContainSubstring(second))))
		Expect(apierrors.IsNotFound(err)).To(BeFalse())
		err = c.List(ctx, &corev1.ConfigMapList{}, client.InNamespace(first))
		Expect(errors.As(err, &outside)).To(BeTrue(), "%v", err)
		Expect(get(third)).To(MatchError(Not(ContainSubstring("any more"))))
		Expect(get(third)).To(MatchError(ContainSubstring("limited to " + second)))
		Expect(setNamespaces(ctx, c, first)).To(Succeed())
		Expect(get(first)).To(Succeed())
	})

	It("have the indexes, and the settings of DefaultNamespaces and ByObject", func(ctx SpecContext) {
		create(ctx, configMap(second, "four", "odd"))
		visited := &visitors{}
		c, err := cache.With(cache.Tuning{Namespaces: labels.Nothing(), NoMetrics: true})(visited.to(cfg), cache.Options{
			DefaultNamespaces: map[string]cache.Config{first: {}, second: {LabelSelector: labels.SelectorFromSet(labels.Set{"set": "even"})}},
			ByObject: map[client.Object]cache.ByObject{
				&corev1.ConfigMap{}: {Transform: func(obj any) (any, error) { obj.(*corev1.ConfigMap).Data["seen"] = "yes"; return obj, nil }},
				&corev1.Secret{}:    {Namespaces: map[string]cache.Config{third: {}}},
			},
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(setNamespaces(ctx, c)).To(Succeed())
		Expect(c.IndexField(ctx, &corev1.ConfigMap{}, "data.set", func(obj client.Object) []string {
			return []string{obj.(*corev1.ConfigMap).Data["set"]}
		})).To(Succeed())
		start(c)
		Expect(c.WaitForCacheSync(ctx)).To(BeTrue())
		Expect(setNamespaces(ctx, c, second, third)).To(Succeed())
		list := &corev1.ConfigMapList{}
		Expect(c.List(ctx, list, client.MatchingFields{"data.set": "odd"})).To(Succeed())
		Expect(list.Items).To(HaveLen(1), "the labels of %s exclude the other one", second)
		Expect(list.Items[0].Data).To(HaveKeyWithValue("seen", "yes"))
		Expect(c.List(ctx, list, client.InNamespace(second), client.MatchingFields{"data.set": "even"})).To(Succeed())
		Expect(list.Items).To(HaveLen(1))
		Expect(c.List(ctx, &corev1.SecretList{}, client.InNamespace(third))).To(Succeed())
		Expect(visited.Made(first)).To(BeZero())
		Expect(setNamespaces(ctx, c, first)).To(Succeed())
		Expect(c.List(ctx, &corev1.SecretList{}, client.InNamespace(third))).To(Succeed(), "it has namespaces of its own")
	})

	It("show own writes from before and after they enter", func(ctx SpecContext) {
		c, _ := startedLive(ctx, cache.Tuning{}, first)
		own, err := tarnclient.New(cfg, client.Options{Cache: &client.CacheOptions{Reader: c}})
		Expect(err).NotTo(HaveOccurred())
		Expect(c.List(ctx, &corev1.ConfigMapList{})).To(Succeed())
		for round := range 5 {
			early, late := configMap(second, fmt.Sprintf("early-%d", round), "odd"), configMap(second, fmt.Sprintf("late-%d", round), "odd")
			Expect(own.Create(ctx, early)).To(Succeed())
			Expect(setNamespaces(ctx, c, first, second)).To(Succeed())
			Expect(own.Get(ctx, client.ObjectKeyFromObject(early), &corev1.ConfigMap{})).To(Succeed())
			Expect(own.Create(ctx, late)).To(Succeed())
			Expect(own.Get(ctx, client.ObjectKeyFromObject(late), &corev1.ConfigMap{})).To(Succeed())
			Expect(setNamespaces(ctx, c, first)).To(Succeed())
		}
	})

	It("let an old page expire", func(ctx SpecContext) {
		create(ctx, configMap(first, "more", "odd"), configMap(second, "more", "odd"))
		c, _ := startedLive(ctx, cache.Tuning{}, first, second)
		page := func(next string) (*corev1.ConfigMapList, error) {
			list := &corev1.ConfigMapList{}
			return list, c.List(ctx, list, client.Limit(1), client.Continue(next))
		}
		for _, change := range [][]string{{first, second, third}, {first, third}, {third}} {
			Expect(setNamespaces(ctx, c, first, second)).To(Succeed())
			list, err := page("")
			Expect(err).NotTo(HaveOccurred())
			list, err = page(list.Continue)
			Expect(err).NotTo(HaveOccurred())
			Expect(setNamespaces(ctx, c, change...)).To(Succeed())
			_, err = page(list.Continue)
			Expect(apierrors.IsResourceExpired(err)).To(BeTrue(), "%v", err)
		}
	})

	It("do not wait for one without permission, which says why, and leaves", func(ctx SpecContext) {
		create(ctx,
			&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: first, Name: "read"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list", "watch"}}}},
			&rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Namespace: first, Name: "read"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "read"},
				Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "live-" + first}},
			})
		as := rest.CopyConfig(cfg)
		as.Impersonate.UserName = "live-" + first
		c, err := cache.With(cache.Tuning{Namespaces: labels.Nothing(), NoMetrics: true})(as, cache.Options{Mapper: fixedMapper()})
		Expect(err).NotTo(HaveOccurred())
		start(c)
		informer, err := c.GetInformer(ctx, &corev1.ConfigMap{})
		Expect(err).NotTo(HaveOccurred())
		heard := &picture{}
		_, err = informer.AddEventHandler(heard)
		Expect(err).NotTo(HaveOccurred())
		Expect(setNamespaces(ctx, c, first, second)).To(Succeed())
		Expect(c.WaitForCacheSync(ctx)).To(BeTrue())
		Eventually(heard.Heard).Should(Equal([]string{"add one"}))
		Expect(c.Get(ctx, client.ObjectKey{Namespace: first, Name: "one"}, &corev1.ConfigMap{})).To(Succeed())
		Expect(cache.NotSynced(c)).To(HaveLen(1))
		Expect(cache.NotSynced(c)[0]).To(HaveField("Cause", cache.Forbidden))
		Expect(c.List(ctx, &corev1.ConfigMapList{}, client.InNamespace(second))).To(BeAssignableToTypeOf(&cache.NotSyncedError{}))
		Expect(setNamespaces(ctx, c, first)).To(Succeed())
		Expect(c.List(ctx, &corev1.ConfigMapList{})).To(Succeed())
		Expect(cache.NotSynced(c)).To(BeEmpty())
		Expect(heard.Heard()).To(BeEmpty())
	})

	It("have optional kinds that come later", func(ctx SpecContext) {
		g := newGuest()
		c, err := cache.With(cache.Tuning{Namespaces: labels.Nothing(), NoMetrics: true, TuningByObject: cache.TuningByObject{Optional: ptr.To(true)}})(cfg, cache.Options{})
		Expect(err).NotTo(HaveOccurred())
		start(c)
		heard, _ := listen(ctx, c, g.object("", ""))
		Expect(setNamespaces(ctx, c, first)).To(Succeed())
		g.come(ctx, apiextensionsv1.NamespaceScoped)
		DeferCleanup(func(ctx SpecContext) { g.leave(ctx) })
		g.send(ctx, first, "alice")
		g.send(ctx, second, "bob")
		Eventually(heard.Heard).Should(Equal([]string{"add alice"}))
		Expect(setNamespaces(ctx, c, second)).To(Succeed())
		Eventually(func() []string { known, _ := heard.now(); return slices.Collect(maps.Keys(known)) }).Should(ConsistOf(second + "/bob"))
		Eventually(heard.Heard).Should(Equal([]string{"add bob", "delete alice"}))
	})

	It("leave nothing behind", func(ctx SpecContext) {
		c, visited := startedLive(ctx, cache.Tuning{}, first)
		heard, _ := listen(ctx, c, &corev1.ConfigMap{})
		listen(ctx, c, &corev1.Secret{})
		flip := func() {
			GinkgoHelper()
			Expect(setNamespaces(ctx, c, first, second, third)).To(Succeed())
			Expect(c.WaitForCacheSync(ctx)).To(BeTrue())
			Expect(setNamespaces(ctx, c, first)).To(Succeed())
			Eventually(func() []string { known, _ := heard.now(); return slices.Collect(maps.Keys(known)) }).Should(ConsistOf(first + "/one"))
			Eventually(visited.Open).Should(ConsistOf(first))
		}
		flip()
		before := runtime.NumGoroutine()
		for range 50 {
			flip()
		}
		Eventually(runtime.NumGoroutine).Should(BeNumerically("<=", before+50), "connections come and go")
		_, wrong := heard.now()
		Expect(wrong).To(BeEmpty())
	})

	It("are refused where they make no sense", func(ctx SpecContext) {
		Expect(setNamespaces(ctx, started(ctx, cache.New, cache.Options{}), first)).To(MatchError(ContainSubstring("they are fixed")))
		c, _ := startedLive(ctx, cache.Tuning{}, first)
		Expect(setNamespaces(ctx, c, second, "a,b")).To(MatchError(ContainSubstring("cannot be the name")))
		Expect(c.List(ctx, &corev1.ConfigMapList{}, client.InNamespace(first))).To(Succeed())
		for _, opts := range []cache.Options{
			{DefaultNamespaces: map[string]cache.Config{cache.AllNamespaces: {}}},
			{NewInformer: toolscache.NewSharedIndexInformer},
		} {
			_, err := cache.With(cache.Tuning{Namespaces: labels.Nothing(), NoMetrics: true})(cfg, opts)
			Expect(err).To(MatchError(ContainSubstring("Namespaces")))
		}
	})
})

func must[T any](value T, err error) T {
	GinkgoHelper()
	Expect(err).NotTo(HaveOccurred())
	return value
}
