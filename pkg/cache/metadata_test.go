// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"context"
	"encoding/json"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/cache"
)

// The Go types below stand for a ConfigMap each. Their metadata lie where those of a type may
// lie that somebody wrote by hand.

// Common is embedded as it is, or by a pointer.
type Common struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

type common[Data any] struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Data              Data `json:"data"`
}

type metadataAlias = metav1.ObjectMeta

type (
	ofUnexported struct {
		common[map[string]string]
	}
	ofAlias struct {
		metav1.TypeMeta `json:",inline"`
		metadataAlias   `json:"metadata"`
		Data            map[string]string `json:"data"`
	}
	ofPointer struct {
		*Common
		Data map[string]string `json:"data"`
	}
	// ofAnotherName is an object whose name is not the one in its ObjectMeta.
	ofAnotherName struct {
		Common
		Data map[string]string `json:"data"`
	}
)

func (o *ofUnexported) DeepCopyObject() runtime.Object  { return deepCopy(o) }
func (o *ofAlias) DeepCopyObject() runtime.Object       { return deepCopy(o) }
func (o *ofPointer) DeepCopyObject() runtime.Object     { return deepCopy(o) }
func (o *ofAnotherName) DeepCopyObject() runtime.Object { return deepCopy(o) }
func (o *ofAnotherName) GetName() string                { return "another-" + o.Name }

// listOf is a list of any of them.
type listOf[T any] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []T `json:"items"`
}

func (l *listOf[T]) DeepCopyObject() runtime.Object { return deepCopy(l) }

func deepCopy[T any](of *T) *T {
	data, err := json.Marshal(of)
	Expect(err).NotTo(HaveOccurred())
	made := new(T)
	Expect(json.Unmarshal(data, made)).To(Succeed())
	return made
}

// keyed asks a cache for the ConfigMaps of a namespace as objects of type T: by a list, by Get,
// and by the events of a handler.
func keyed[T any](ctx context.Context, makeCache ctrlcache.NewCacheFunc, namespace string) (listed, got, added []string) {
	GinkgoHelper()
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(configMapKind, any(new(T)).(runtime.Object))
	scheme.AddKnownTypeWithName(configMapKind.GroupVersion().WithKind("ConfigMapList"), &listOf[T]{})
	metav1.AddToGroupVersion(scheme, configMapKind.GroupVersion())
	json := rest.CopyConfig(cfg)
	json.ContentType = runtime.ContentTypeJSON
	c, err := makeCache(json, cache.Options{Scheme: scheme, DefaultNamespaces: map[string]cache.Config{namespace: {}}})
	Expect(err).NotTo(HaveOccurred())
	start(c)
	informer, err := c.GetInformer(ctx, any(new(T)).(client.Object))
	Expect(err).NotTo(HaveOccurred())
	var mu sync.Mutex
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
		mu.Lock()
		defer mu.Unlock()
		added = append(added, obj.(client.Object).GetName())
	}})
	Expect(err).NotTo(HaveOccurred())
	Eventually(registration.HasSynced).Should(BeTrue())

	list := &listOf[T]{}
	Expect(c.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
	for i := range list.Items {
		obj := any(&list.Items[i]).(client.Object)
		listed = append(listed, obj.GetName())
		one := any(new(T)).(client.Object)
		Expect(c.Get(ctx, client.ObjectKeyFromObject(obj), one)).To(Succeed())
		got = append(got, one.GetName())
	}
	mu.Lock()
	defer mu.Unlock()
	return listed, got, added
}

var _ = Describe("Go types whose metadata are not a field of their own", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) {
		namespace = newNamespace(ctx)
		create(ctx, configMap(namespace, "a", "x"), configMap(namespace, "b", "x"), configMap(namespace, "c", "y"))
	})
	for name, impl := range map[string]ctrlcache.NewCacheFunc{
		"controller-runtime's": ctrlcache.New, "ours": cache.New, "ours, verified": cache.With(cache.Tuning{VerifyFlat: true}),
	} {
		DescribeTable("have the keys that their methods give, in "+name,
			func(ctx SpecContext, keyed func(context.Context, ctrlcache.NewCacheFunc, string) (_, _, _ []string), prefix string) {
				listed, got, added := keyed(ctx, impl, namespace)
				want := ConsistOf(prefix+"a", prefix+"b", prefix+"c")
				Expect(listed).To(want)
				Expect(got).To(want)
				Expect(added).To(want)
			},
			Entry("an unexported, generic struct that embeds them", keyed[ofUnexported], ""),
			Entry("an embedded alias", keyed[ofAlias], ""),
			Entry("an embedded pointer to a struct that embeds them", keyed[ofPointer], ""),
			Entry("a method of its own that says the name", keyed[ofAnotherName], "another-"),
		)
	}
})
