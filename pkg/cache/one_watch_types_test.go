// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/cache"
)

// oddity is a Go type that only a JSON decoder understands, and that not all objects of its kind fit.
type oddity struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              oddSpec `json:"spec,omitempty"`
	//lint:ignore U1000 a conversion by reflection stumbles over it
	hidden func()
}

type oddSpec struct {
	Size   int32          `json:"size,omitempty"`
	Shout  shout          `json:"shout,omitempty"`
	Names  map[int]string `json:"names,omitempty"`
	Pair   [2]int         `json:"pair"`
	Quoted int            `json:"quoted,string,omitempty"`
	//lint:ignore U1000 a conversion by reflection stumbles over it
	hidden any
}

// shout is decoded from a text.
type shout struct{ text string }

func (s *shout) UnmarshalText(text []byte) error {
	s.text = strings.ToUpper(string(text))
	return nil
}

func (o *oddity) DeepCopyObject() runtime.Object {
	out := *o
	o.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

type oddityList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []oddity `json:"items"`
}

func (l *oddityList) DeepCopyObject() runtime.Object { out := *l; return &out }

var oddityKind = schema.GroupVersionKind{Group: "views.example.com", Version: "v1", Kind: "Oddity"}

// oddityScheme has the Go type of oddities.
func oddityScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(oddityKind, &oddity{})
	scheme.AddKnownTypeWithName(oddityKind.GroupVersion().WithKind("OddityList"), &oddityList{})
	metav1.AddToGroupVersion(scheme, oddityKind.GroupVersion())
	return scheme
}

// oddEvents keeps what a handler of oddities is told, in words.
type oddEvents struct {
	mu   sync.Mutex
	said []string
}

func (h *oddEvents) say(text string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.said = append(h.said, fmt.Sprintf(text, args...))
}

func (h *oddEvents) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.said...)
}

func (h *oddEvents) OnAdd(obj any, _ bool) { h.say("add %d", obj.(*oddity).Spec.Size) }
func (h *oddEvents) OnUpdate(before, obj any) {
	h.say("update %d to %d", before.(*oddity).Spec.Size, obj.(*oddity).Spec.Size)
}
func (h *oddEvents) OnDelete(obj any) {
	if unknown, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		h.say("delete %s of %d", unknown.Key, unknown.Obj.(*oddity).Spec.Size)
		return
	}
	h.say("delete %d", obj.(*oddity).Spec.Size)
}

var _ = Describe("A Go type of a kind with one watch", Ordered, func() {
	var namespace string
	var live client.Client // decodes the Go type as clients do
	BeforeAll(func(ctx SpecContext) {
		crd := gadgetCRD()
		crd.Name, crd.Spec.Names.Plural, crd.Spec.Names.Singular = "oddities."+oddityKind.Group, "oddities", "oddity"
		crd.Spec.Names.Kind, crd.Spec.Names.ListKind = "Oddity", "OddityList"
		Expect(env.InstallCRDs(ctx, crd)).To(Succeed())
		var err error
		live, err = client.New(cfg, client.Options{Scheme: oddityScheme()})
		Expect(err).NotTo(HaveOccurred())
	})
	BeforeEach(func(ctx SpecContext) { namespace = newNamespace(ctx) })

	content := func(name string, spec map[string]any) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		u.SetGroupVersionKind(oddityKind)
		u.SetNamespace(namespace)
		u.SetName(name)
		u.SetLabels(map[string]string{"name": name})
		return u
	}
	sized := func(name string, size int64) *unstructured.Unstructured {
		return content(name, map[string]any{"size": size})
	}
	resize := func(ctx context.Context, obj *unstructured.Unstructured, size int64) {
		GinkgoHelper()
		Expect(unstructured.SetNestedField(obj.Object, size, "spec", "size")).To(Succeed())
		Expect(api.Update(ctx, obj)).To(Succeed())
	}
	const large = 3_000_000_000 // does not fit an int32
	options := func() cache.Options {
		return cache.Options{Scheme: oddityScheme(), DefaultNamespaces: map[string]cache.Config{namespace: {}}}
	}
	oneWatch := cache.Tuning{TuningByObject: cache.TuningByObject{Storage: cache.OneWatch}}
	byShout := func(obj client.Object) []string { return []string{obj.(*oddity).Spec.Shout.text} }

	It("is what clients decode, in reads and in handlers", func(ctx SpecContext) {
		specs := []map[string]any{
			{"size": int64(1), "shout": "hey", "names": map[string]any{"1": "a", "-2": "b"}, "pair": []any{int64(1), int64(2)}, "quoted": "7", "hidden": "x"},
			{"size": int64(large)}, {"size": int64(-1 << 31)}, {"size": 1.5}, {"names": map[string]any{"one": "a"}}, {"pair": []any{int64(1)}},
			{"pair": []any{int64(1), int64(2), int64(3)}}, {"quoted": int64(7)}, {"quoted": "x"}, {"shout": int64(1)}, {"size": nil, "names": nil}, {"Size": int64(5)},
		}
		for n, spec := range specs {
			create(ctx, content(fmt.Sprint("odd-", n), spec))
		}
		c := started(ctx, cache.With(oneWatch), options())
		var mu sync.Mutex
		added := map[string]*oddity{}
		informer, err := c.GetInformer(ctx, &oddity{})
		Expect(err).NotTo(HaveOccurred())
		handler, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
			mu.Lock()
			defer mu.Unlock()
			added[obj.(*oddity).Name] = obj.(*oddity)
		}})
		Expect(err).NotTo(HaveOccurred())
		Eventually(handler.HasSyncedChecker().Done()).Should(BeClosed())
		fit := 0
		for n, spec := range specs {
			key := client.ObjectKey{Namespace: namespace, Name: fmt.Sprint("odd-", n)}
			want, got := &oddity{}, &oddity{}
			decodeError := live.Get(ctx, key, want)
			err := c.Get(ctx, key, got)
			if decodeError != nil {
				Expect(err).To(MatchError(ContainSubstring("does not fit *cache_test.oddity")), "%v", spec)
				Expect(added).NotTo(HaveKey(key.Name))
				continue
			}
			fit++
			want.SetGroupVersionKind(oddityKind)
			Expect(err).NotTo(HaveOccurred(), "%v", spec)
			Expect(got).To(Equal(want), "%v", spec)
			Expect(added).To(HaveKeyWithValue(key.Name, want))
		}
		Expect(fit).To(BeNumerically(">", 3))
		Expect(fit).To(BeNumerically("<", len(specs)-3))
	})

	for name, impl := range map[string]ctrlcache.NewCacheFunc{
		"controller-runtime's": ctrlcache.New, "ours": cache.New, "ours with one watch": cache.With(oneWatch),
	} {
		It("has handlers that are told of what fits, from "+name, func(ctx SpecContext) {
			c := started(ctx, impl, options())
			informer, err := c.GetInformer(ctx, &oddity{})
			Expect(err).NotTo(HaveOccurred())
			h := &oddEvents{}
			_, err = informer.AddEventHandler(h)
			Expect(err).NotTo(HaveOccurred())
			obj := sized("odd", 1)
			create(ctx, obj)
			Eventually(h.all).WithTimeout(patience).Should(Equal([]string{"add 1"}))
			resize(ctx, obj, large)
			resize(ctx, obj, 3)
			Eventually(h.all).WithTimeout(patience).Should(HaveExactElements("add 1", "update 1 to 3"))
			resize(ctx, obj, large)
			Expect(api.Delete(ctx, obj)).To(Succeed())
			Eventually(h.all).WithTimeout(patience).Should(HaveExactElements("add 1", "update 1 to 3", "delete "+namespace+"/odd of 3"))
		})
	}

	It("is an error of lists by a field while an object does not fit that may match", func(ctx SpecContext) {
		create(ctx, content("good", map[string]any{"shout": "hey"}), sized("bad", large))
		c := started(ctx, cache.With(oneWatch), options())
		Expect(c.IndexField(ctx, &oddity{}, "shout", byShout)).To(Succeed())
		list := &oddityList{}
		fails := MatchError(ContainSubstring("/bad does not fit *cache_test.oddity"))
		Expect(c.List(ctx, list)).To(fails)
		Expect(c.List(ctx, list, client.MatchingFields{"shout": "HEY"})).To(fails)
		Expect(c.List(ctx, list, client.MatchingFields{"shout": "HEY"}, client.InNamespace(namespace))).To(fails)
		Expect(c.List(ctx, list, client.MatchingFields{"shout": "HEY"}, client.MatchingLabels{"name": "bad"})).To(fails)
		Expect(c.List(ctx, list, client.MatchingFields{"shout": "HEY"}, client.MatchingLabels{"name": "good"})).To(Succeed())
		Expect(list.Items).To(HaveLen(1))
		Expect(c.List(ctx, list, client.MatchingFields{"metadata.name": "good", "shout": "HEY"})).To(Succeed())
		Expect(list.Items).To(HaveLen(1))
		Expect(c.List(ctx, list, client.MatchingFields{"metadata.name": "good"})).To(Succeed())
		Expect(api.Delete(ctx, sized("bad", large))).To(Succeed())
		Eventually(func() error { return c.List(ctx, list, client.MatchingFields{"shout": "HEY"}) }).Should(Succeed())
		Expect(list.Items).To(HaveLen(1))
	})

	It("takes its index functions away with its informer", func(ctx SpecContext) {
		create(ctx, content("a", map[string]any{"shout": "hey"}))
		c := started(ctx, cache.With(oneWatch), options())
		whole := &unstructured.Unstructured{}
		whole.SetGroupVersionKind(oddityKind)
		_, err := c.GetInformer(ctx, whole) // goes on
		Expect(err).NotTo(HaveOccurred())
		list, hey := &oddityList{}, client.MatchingFields{"shout": "HEY"}
		var before atomic.Int64
		for n := range 3 {
			var calls atomic.Int64
			Expect(c.IndexField(ctx, &oddity{}, "shout", func(obj client.Object) []string {
				calls.Add(1)
				return []string{byShout(obj)[0] + strconv.Itoa(n)}
			})).To(Succeed())
			Expect(c.List(ctx, list, client.MatchingFields{"shout": "HEY" + strconv.Itoa(n)})).To(Succeed())
			Expect(list.Items).NotTo(BeEmpty(), "the new function counts")
			Expect(c.RemoveInformer(ctx, &oddity{})).To(Succeed())
			before.Store(calls.Load())
			create(ctx, content(fmt.Sprint("late-", n), map[string]any{"shout": "hey"}))
			Eventually(func() error {
				return c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: fmt.Sprint("late-", n)}, whole)
			}).Should(Succeed())
			Expect(calls.Load()).To(Equal(before.Load()), "it is called no more")
			Expect(c.List(ctx, list, hey)).To(MatchError(ContainSubstring(`field "shout"`)), "nobody has declared it")
		}
	})

	It("reads through what a transform has made of the unstructured object", func(ctx SpecContext) {
		create(ctx, content("outside", map[string]any{"size": int64(7), "shout": "hey"}))
		tuning, opts := oneWatch, options()
		opts.DefaultTransform = func(obj any) (any, error) {
			u, ok := obj.(*unstructured.Unstructured)
			if !ok {
				return nil, fmt.Errorf("a transform of the kind got a %T", obj)
			}
			u.SetAnnotations(map[string]string{"transformed": "yes"})
			return u, nil
		}
		opts.DefaultLabelSelector = labels.SelectorFromSet(labels.Set{"name": "none"})
		c := started(ctx, cache.With(tuning), opts)
		metadata := &metav1.PartialObjectMetadata{}
		metadata.SetGroupVersionKind(oddityKind)
		for _, obj := range []client.Object{&oddity{}, metadata} {
			Expect(c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "outside"}, obj, cache.ReadThrough())).To(Succeed())
			m, err := meta.Accessor(obj)
			Expect(err).NotTo(HaveOccurred())
			Expect(m.GetAnnotations()).To(HaveKeyWithValue("transformed", "yes"))
			Expect(obj.GetObjectKind().GroupVersionKind()).To(Equal(oddityKind))
		}
		create(ctx, sized("bad", large))
		err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "bad"}, &oddity{}, cache.ReadThrough())
		Expect(err).To(MatchError(ContainSubstring("does not fit *cache_test.oddity")))
	})
})
