// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/cache"
	tarnclient "github.com/tarn-dev/tarn/pkg/client"
)

// labelled returns a ConfigMap with labels.
func labelled(namespace, name, data string, of labels.Set) *corev1.ConfigMap {
	obj := configMap(namespace, name, data)
	obj.Labels = of
	return obj
}

// matching returns a list of what has all labels of a set.
func matching(set labels.Set) client.ListOptions {
	return client.ListOptions{LabelSelector: labels.SelectorFromSet(set)}
}

// wholeOf returns the tuning that keeps whole ConfigMaps.
func wholeOf(settings cache.TuningByObject, whole ...client.ListOptions) cache.Tuning {
	settings.Whole = whole
	return cache.Tuning{ByObject: map[client.Object]cache.TuningByObject{&corev1.ConfigMap{}: settings}}
}

// selectors has the label selectors of requests.
type selectors struct {
	mu   sync.Mutex
	sent []string
}

func (s *selectors) to(server *rest.Config) *rest.Config {
	server = rest.CopyConfig(server)
	server.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			s.mu.Lock()
			s.sent = append(s.sent, r.URL.Query().Get("labelSelector"))
			s.mu.Unlock()
			return next.RoundTrip(r)
		})
	})
	return server
}

// Sent returns the selectors of all requests, each once.
func (s *selectors) Sent() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Compact(slices.Sorted(slices.Values(s.sent)))
}

// oneOf reports whether an object is red, or is square in that namespace: what the specs select.
func oneOf(obj client.Object, namespace string) bool {
	return obj.GetLabels()["color"] == "red" || obj.GetNamespace() == namespace && obj.GetLabels()["shape"] == "square"
}

var _ = Describe("Several selectors of a kind", func() {
	red := matching(labels.Set{"color": "red"})
	representations := []string{"structured", "unstructured", "metadata"}

	for _, storage := range []cache.Storage{cache.Flat, cache.Decoded, cache.SeparateMetadata, cache.OneWatch} {
		for _, rest := range []bool{false, true} {
			It(fmt.Sprintf("hold what one of them selects, beside writers: %s, with a rest %v", storage, rest), func(ctx SpecContext) {
				seed := uint64(GinkgoRandomSeed())
				one, other := newNamespace(ctx), newNamespace(ctx)
				square := matching(labels.Set{"shape": "square"})
				square.Namespace = one
				settings := cache.TuningByObject{Storage: storage, Window: 4}
				if rest {
					settings.Fields = []string{"metadata"}
				}
				c := started(ctx, cache.With(wholeOf(settings, red, square)), cache.Options{DefaultNamespaces: map[string]cache.Config{one: {}, other: {}}})
				held := func(obj client.Object) bool { return rest || oneOf(obj, one) }

				writeAtRandom := func(r *rand.Rand) {
					for range 60 {
						obj := labelled([]string{one, other}[r.IntN(2)], fmt.Sprintf("name-%d", r.IntN(6)), strconv.Itoa(r.IntN(100)), labels.Set{
							"color": []string{"red", "blue"}[r.IntN(2)], "shape": []string{"square", "round"}[r.IntN(2)],
						})
						change(ctx, r, obj)
					}
				}
				writeAtRandom(rand.New(rand.NewPCG(seed, 0))) // there is a first list
				pictures := map[string]*picture{}
				for _, representation := range representations {
					obj, _ := ofConfigMaps(representation)
					informer, err := c.GetInformer(ctx, obj)
					Expect(err).NotTo(HaveOccurred())
					pictures[representation] = &picture{}
					_, err = informer.AddEventHandler(pictures[representation])
					Expect(err).NotTo(HaveOccurred())
				}
				var writers sync.WaitGroup
				for n := range 3 {
					writers.Go(func() { writeAtRandom(rand.New(rand.NewPCG(seed, uint64(n+1)))) })
				}
				writers.Wait()

				wanted := func() map[string]string {
					GinkgoHelper()
					all := map[string]string{}
					for _, namespace := range []string{one, other} {
						list := &corev1.ConfigMapList{}
						Expect(api.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
						for i := range list.Items {
							if held(&list.Items[i]) {
								all[client.ObjectKeyFromObject(&list.Items[i]).String()] = list.Items[i].ResourceVersion
							}
						}
					}
					return all
				}()
				for _, representation := range representations {
					Eventually(func(g Gomega) {
						_, list := ofConfigMaps(representation)
						g.Expect(c.List(ctx, list)).To(Succeed())
						got := map[string]string{}
						all := items(list)
						for _, item := range all {
							got[client.ObjectKeyFromObject(item).String()] = item.GetResourceVersion()
							g.Expect(item.GetSelfLink() == "").To(Equal(oneOf(item, one)), "%s", item.GetName())
							if m, typed := item.(*corev1.ConfigMap); typed {
								g.Expect(m.Data != nil).To(Equal(oneOf(item, one)))
							}
						}
						g.Expect(got).To(Equal(wanted))
						g.Expect(all).To(HaveLen(len(wanted)))
						heard, wrong := pictures[representation].now()
						g.Expect(wrong).To(BeEmpty())
						g.Expect(heard).To(Equal(wanted))
					}).WithTimeout(patience).Should(Succeed(), "seed %d, %s", seed, representation)
				}
			})
		}
	}

	It("move an object without a delete, and tell of one that leaves with the last state that was held", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		Expect(api.Create(ctx, labelled(namespace, "moves", "1", labels.Set{"color": "red"}))).To(Succeed())
		Expect(api.Create(ctx, labelled(namespace, "never", "1", labels.Set{"color": "blue"}))).To(Succeed())
		c := started(ctx, cache.With(wholeOf(cache.TuningByObject{}, red, matching(labels.Set{"shape": "square"}))),
			cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}})
		informer, err := c.GetInformer(ctx, &corev1.ConfigMap{})
		Expect(err).NotTo(HaveOccurred())
		heard := make(chan string, 100)
		tell := func(what string) func(any) {
			return func(obj any) {
				m := obj.(*corev1.ConfigMap) // and no DeletedFinalStateUnknown
				heard <- fmt.Sprintf("%s %s %s %s%s", what, m.Name, m.Data["set"], m.Labels["color"], m.Labels["shape"])
			}
		}
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: tell("add"), UpdateFunc: func(_, obj any) { tell("update")(obj) }, DeleteFunc: tell("delete"),
		})
		Expect(err).NotTo(HaveOccurred())
		for n, set := range []labels.Set{{"shape": "square"}, {"color": "red", "shape": "round"}, {"color": "blue"}, {"color": "red"}} {
			Expect(api.Update(ctx, labelled(namespace, "moves", strconv.Itoa(n+2), set))).To(Succeed())
			Expect(api.Update(ctx, labelled(namespace, "never", strconv.Itoa(n+2), labels.Set{"color": "blue"}))).To(Succeed())
		}
		Expect(api.Delete(ctx, labelled(namespace, "never", "", nil))).To(Succeed())
		Expect(api.Delete(ctx, labelled(namespace, "moves", "", nil))).To(Succeed())
		for _, wanted := range []string{
			"add moves 1 red", "update moves 2 square", "update moves 3 redround", "delete moves 3 redround", "add moves 5 red", "delete moves 5 red",
		} {
			Eventually(heard).WithTimeout(patience).Should(Receive(Equal(wanted)))
		}
		Consistently(heard, 100*time.Millisecond).ShouldNot(Receive())
	})

	DescribeTable("ask the API server for what their labels have in common", func(ctx SpecContext, sent string, whole ...client.ListOptions) {
		asked := &selectors{}
		c, err := cache.With(wholeOf(cache.TuningByObject{}, whole...))(asked.to(cfg), cache.Options{
			Mapper: api.RESTMapper(), ByObject: map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {Label: labels.SelectorFromSet(labels.Set{"of": "all"})}},
		})
		Expect(err).NotTo(HaveOccurred())
		start(c)
		Expect(c.WaitForCacheSync(ctx)).To(BeTrue())
		Expect(c.List(ctx, &corev1.ConfigMapList{})).To(Succeed())
		Expect(asked.Sent()).To(Equal([]string{sent}))
	},
		Entry("the same label", "color=red,of=all", red, matching(labels.Set{"color": "red", "shape": "square"})),
		Entry("several values of one", "color in (blue,red),of=all", red, matching(labels.Set{"color": "blue", "shape": "square"})),
		Entry("nothing", "of=all", red, matching(labels.Set{"shape": "square"})),
		Entry("a list of everything", "of=all", red, client.ListOptions{}),
		Entry("one selector", "color=red,of=all", red),
		Entry("a namespace too", "color=red,of=all", client.ListOptions{Namespace: "default", LabelSelector: red.LabelSelector}),
	)

	It("show own writes at once, also what they take out", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		c := started(ctx, cache.With(wholeOf(cache.TuningByObject{}, red, matching(labels.Set{"shape": "square"}))),
			cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}})
		writer, err := tarnclient.New(cfg, client.Options{Cache: &client.CacheOptions{Reader: c}})
		Expect(err).NotTo(HaveOccurred())
		names := func() (found []string) {
			GinkgoHelper()
			list := &corev1.ConfigMapList{}
			Expect(writer.List(ctx, list)).To(Succeed())
			for _, m := range list.Items {
				found = append(found, m.Name)
			}
			return found
		}
		Expect(names()).To(BeEmpty())
		for range 20 {
			obj := labelled(namespace, "own", "1", labels.Set{"shape": "square"})
			Expect(writer.Create(ctx, obj)).To(Succeed())
			Expect(names()).To(Equal([]string{"own"}))
			obj.Labels = labels.Set{"shape": "round"}
			Expect(writer.Update(ctx, obj)).To(Succeed())
			Expect(names()).To(BeEmpty())
			Expect(writer.Get(ctx, client.ObjectKeyFromObject(obj), &corev1.ConfigMap{})).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
			obj.Labels = labels.Set{"color": "red"}
			Expect(writer.Update(ctx, obj)).To(Succeed())
			Expect(names()).To(Equal([]string{"own"}))
			Expect(writer.Delete(ctx, obj)).To(Succeed())
		}
	})

	It("keep the rest in part: reads say so, and a write of a part is refused", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		Expect(api.Create(ctx, labelled(namespace, "whole", "1", labels.Set{"color": "red"}))).To(Succeed())
		Expect(api.Create(ctx, labelled(namespace, "part", "1", labels.Set{"color": "blue"}))).To(Succeed())
		c := started(ctx, cache.With(wholeOf(cache.TuningByObject{Fields: []string{"metadata"}}, red)),
			cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}})
		writer, err := tarnclient.New(cfg, client.Options{Cache: &client.CacheOptions{Reader: c}})
		Expect(err).NotTo(HaveOccurred())
		whole, part := &corev1.ConfigMap{}, &corev1.ConfigMap{}
		Expect(writer.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "whole"}, whole)).To(Succeed())
		Expect(whole.Data).To(HaveKeyWithValue("set", "1"))
		Expect(whole.GetSelfLink()).To(BeEmpty())
		Expect(writer.Update(ctx, whole)).To(Succeed())
		key := client.ObjectKey{Namespace: namespace, Name: "part"}
		Expect(writer.Get(ctx, key, part)).To(Succeed())
		Expect(part.Data).To(BeNil())
		Expect(part.Labels).To(HaveKeyWithValue("color", "blue"))
		Expect(part.GetSelfLink()).To(Equal("?fields=metadata"))
		Expect(writer.Update(ctx, part)).To(MatchError(apierrors.IsBadRequest, "IsBadRequest"))
		Expect(c.Get(ctx, key, part, cache.ReadThrough())).To(Succeed())
		Expect(part.Data).To(HaveKeyWithValue("set", "1"))

		part.Labels["color"] = "red" // it becomes whole
		Expect(writer.Update(ctx, part)).To(Succeed())
		Expect(writer.Get(ctx, key, part)).To(Succeed())
		Expect(part.Data).To(HaveKeyWithValue("set", "1"))
		Expect(part.GetSelfLink()).To(BeEmpty())
	})

	It("see no object that they do not select in a transform, of any representation", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		Expect(api.Create(ctx, labelled(namespace, "in", "1", labels.Set{"color": "red"}))).To(Succeed())
		Expect(api.Create(ctx, labelled(namespace, "out", "1", labels.Set{"color": "blue"}))).To(Succeed())
		var seen sync.Map
		c := started(ctx, cache.With(wholeOf(cache.TuningByObject{Storage: cache.SeparateMetadata}, red)), cache.Options{
			DefaultNamespaces: map[string]cache.Config{namespace: {}},
			DefaultTransform: func(obj any) (any, error) {
				seen.Store(obj.(client.Object).GetName(), true)
				return obj, nil
			},
		})
		for _, representation := range representations {
			obj, list := ofConfigMaps(representation)
			Expect(c.List(ctx, list)).To(Succeed())
			Expect(items(list)).To(HaveLen(1))
			err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "out"}, obj)
			Expect(err).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
			Expect(err).To(MatchError(ContainSubstring("color=red")))
		}
		Expect(api.Update(ctx, labelled(namespace, "in", "2", labels.Set{"color": "blue"}))).To(Succeed())
		Eventually(func() int {
			list := &corev1.ConfigMapList{}
			Expect(c.List(ctx, list)).To(Succeed())
			return len(list.Items)
		}).WithTimeout(patience).Should(BeZero())
		_, out := seen.Load("out")
		Expect(out).To(BeFalse())
	})

	It("neither need nor see an object that they do not select and that does not fit its Go type", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		json, opts, _ := watchesOf(namespace, strictScheme())
		create(ctx, labelled(namespace, "fine", "fits", labels.Set{"color": "red"}), labelled(namespace, "odd", "odd", labels.Set{"color": "blue"}))
		tuning := cache.Tuning{ByObject: map[client.Object]cache.TuningByObject{&strict{}: {Whole: []client.ListOptions{red, matching(labels.Set{"shape": "square"})}}}}
		c, err := cache.With(tuning)(json, opts)
		Expect(err).NotTo(HaveOccurred())
		start(c)
		Expect(c.WaitForCacheSync(ctx)).To(BeTrue())
		Expect(c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "fine"}, &strict{})).To(Succeed())
		create(ctx, labelled(namespace, "odd-too", "odd", labels.Set{"color": "blue"}), labelled(namespace, "later", "fits", labels.Set{"color": "red"}))
		Eventually(func() error { return c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "later"}, &strict{}) }).Should(Succeed())
	})

	It("answer a read after a write that they do not select without a question", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		asked := &selectors{}
		Expect(api.Create(ctx, labelled(namespace, "out", "1", labels.Set{"color": "blue"}))).To(Succeed())
		c, err := cache.With(wholeOf(cache.TuningByObject{}, red))(asked.to(cfg), cache.Options{
			Mapper: api.RESTMapper(), DefaultNamespaces: map[string]cache.Config{namespace: {}},
		})
		Expect(err).NotTo(HaveOccurred())
		start(c)
		Expect(c.WaitForCacheSync(ctx)).To(BeTrue())
		writer, err := tarnclient.New(cfg, client.Options{Cache: &client.CacheOptions{Reader: c}})
		Expect(err).NotTo(HaveOccurred())
		list := &corev1.ConfigMapList{}
		Expect(writer.List(ctx, list)).To(Succeed())
		before := len(asked.sent)
		out := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "out"}}
		out.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		Expect(writer.Patch(ctx, out, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"a":"b"}}}`)))).To(Succeed())
		Expect(writer.List(ctx, list)).To(Succeed())
		Expect(list.Items).To(BeEmpty())
		Expect(asked.sent).To(HaveLen(before))
	})

	DescribeTable("refuse what cannot be evaluated", func(ctx context.Context, text string, whole ...client.ListOptions) {
		_, err := cache.With(wholeOf(cache.TuningByObject{}, append([]client.ListOptions{}, whole...)...))(cfg, cache.Options{})
		Expect(err).To(MatchError(ContainSubstring(text)))
	},
		Entry("no entry", "it has no entry"),
		Entry("labels that select nothing", "entry 1: labels.Nothing() selects nothing", red, client.ListOptions{LabelSelector: labels.Nothing()}),
		Entry("fields that select nothing", "entry 0: fields.Nothing() selects nothing", client.ListOptions{FieldSelector: fields.Nothing()}),
		Entry("a field of the server", "the field spec.nodeName is known to the API server alone", client.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", "n")}),
		Entry("a limit", "leave the others empty", client.ListOptions{Limit: 1}),
		Entry("a copy", "leave the others empty", client.ListOptions{UnsafeDisableDeepCopy: ptr.To(true)}),
	)

	It("refuse namespaces of cluster-scoped kinds, and informers of the program", func(ctx SpecContext) {
		of := func(obj client.Object) cache.Tuning {
			return cache.Tuning{ByObject: map[client.Object]cache.TuningByObject{obj: {Whole: []client.ListOptions{{Namespace: "a"}}}}}
		}
		c := started(ctx, cache.With(of(&rbacv1.ClusterRole{})), cache.Options{})
		Expect(c.List(ctx, &rbacv1.ClusterRoleList{})).To(MatchError(ContainSubstring(`entry 0: the kind is cluster-scoped, and the Namespace is "a"`)))
		newInformer := toolscache.NewSharedIndexInformer
		_, err := cache.With(of(&corev1.ConfigMap{}))(cfg, cache.Options{NewInformer: newInformer})
		Expect(err).To(MatchError(ContainSubstring("Whole cannot be set with the option NewInformer")))
		_, err = cache.With(cache.Tuning{TuningByObject: cache.TuningByObject{Whole: []client.ListOptions{red}}})(cfg, cache.Options{})
		Expect(err).To(MatchError(ContainSubstring("Fields and Whole are those of one kind")))
	})
})
