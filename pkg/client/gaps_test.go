// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"bytes"
	"context"
	"runtime"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	toolscache "k8s.io/client-go/tools/cache"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/note"
	"github.com/tarn-dev/tarn/pkg/cache"
)

// soon is longer than a read of a cache takes, and shorter than a watch that is held back.
const soon = 300 * time.Millisecond

// within returns a context that ends soon.
func within(ctx context.Context) context.Context {
	ctx, cancel := context.WithTimeout(ctx, soon)
	DeferCleanup(cancel)
	return ctx
}

// The gaps are those of controller-runtime v0.25 with EnableReadYourWritesConsistency. Each runs on
// its client, where it shows the gap, and on ours.
var _ = Describe("the gaps of controller-runtime's experiment", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) { namespace = newNamespace(ctx) })

	// both runs a spec on their client and cache, and on ours. Its expectations of the two differ.
	both := func(gap string, spec func(ctx SpecContext, m maker, closed bool)) {
		It(gap+": theirs", func(ctx SpecContext) { spec(ctx, theirs, false) }, SpecTimeout(patience))
		It(gap+": ours", func(ctx SpecContext) { spec(ctx, ours, true) }, SpecTimeout(patience))
	}

	both("1. of several namespaces, one that is ahead hides that another is behind", func(ctx SpecContext, m maker, closed bool) {
		other := newNamespace(ctx)
		p := m.run(ctx, cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}, other: {}}}, crclient.CacheOptions{})
		p.watch(ctx, &corev1.ConfigMap{})
		Expect(p.Get(within(ctx), crclient.ObjectKey{Namespace: namespace, Name: "none"}, &corev1.ConfigMap{})).NotTo(Succeed())
		p.watches.pass()
		p.watches.holdOnly("/" + namespace + "/")
		created := configMap(namespace, "created", nil)
		Expect(p.Create(ctx, created)).To(Succeed())
		Expect(api.Create(ctx, configMap(other, "ahead", nil))).To(Succeed())
		Eventually(func() error {
			return p.cache.Get(ctx, crclient.ObjectKey{Namespace: other, Name: "ahead"}, &corev1.ConfigMap{})
		}).Should(Succeed())
		read := func() error { return p.Get(within(ctx), crclient.ObjectKeyFromObject(created), &corev1.ConfigMap{}) }
		if closed {
			Expect(read()).To(Succeed())
		} else {
			Eventually(read).Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
		}
	})

	both("2. DeleteAllOf", func(ctx SpecContext, m maker, closed bool) {
		Expect(api.Create(ctx, configMap(namespace, "a", nil))).To(Succeed())
		p := m.run(ctx, cache.Options{}, crclient.CacheOptions{})
		p.watch(ctx, &corev1.ConfigMap{})
		err := p.DeleteAllOf(ctx, &corev1.ConfigMap{}, crclient.InNamespace(namespace))
		if !closed {
			Expect(err).To(MatchError(ContainSubstring("not supported")))
			return
		}
		Expect(err).NotTo(HaveOccurred())
		list := &corev1.ConfigMapList{}
		Expect(p.List(ctx, list, crclient.InNamespace(namespace))).To(Succeed())
		Expect(list.Items).To(BeEmpty())
	})

	both("3. a write of a Go type is not seen by a read of content", func(ctx SpecContext, m maker, closed bool) {
		p := m.run(ctx, cache.Options{}, crclient.CacheOptions{Unstructured: true})
		content := &unstructured.Unstructured{}
		content.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		// Their read begins to watch with a handler of its own, which must have synced.
		Expect(apierrors.IsNotFound(p.Get(ctx, crclient.ObjectKey{Namespace: namespace, Name: "none"}, content.DeepCopy()))).To(BeTrue())
		Expect(apierrors.IsNotFound(p.Get(ctx, crclient.ObjectKey{Namespace: namespace, Name: "none"}, &corev1.ConfigMap{}))).To(BeTrue())
		p.watch(ctx)
		created := configMap(namespace, "created", nil)
		Expect(p.Create(ctx, created)).To(Succeed())
		err := p.Get(within(ctx), crclient.ObjectKeyFromObject(created), content)
		if closed {
			Expect(err).NotTo(HaveOccurred())
		} else {
			Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
		}
	})

	both("4. kinds that are never cached get an informer", func(ctx SpecContext, m maker, closed bool) {
		p := m.run(ctx, cache.Options{}, crclient.CacheOptions{DisableFor: []crclient.Object{&corev1.ConfigMap{}}})
		created := configMap(namespace, "created", nil)
		Expect(p.Create(ctx, created)).To(Succeed())
		Expect(p.Get(ctx, crclient.ObjectKeyFromObject(created), created)).To(Succeed())
		content := &unstructured.Unstructured{}
		content.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		content.SetNamespace(namespace)
		content.SetName("secret")
		Expect(p.Create(ctx, content)).To(Succeed())
		Expect(p.Get(ctx, crclient.ObjectKeyFromObject(content), content)).To(Succeed())
		if closed {
			Expect(p.watches.watches.Load()).To(BeZero())
		} else {
			Expect(p.watches.watches.Load()).To(BeEquivalentTo(2))
		}
	})

	both("5. a dry run of a creation fails", func(ctx SpecContext, m maker, closed bool) {
		p := m.run(ctx, cache.Options{}, crclient.CacheOptions{})
		p.watch(ctx, &corev1.ConfigMap{})
		dry := configMap(namespace, "dry", nil)
		err := p.Create(ctx, dry, crclient.DryRunAll)
		if !closed {
			Expect(err).To(MatchError(ContainSubstring("failed to parse resource version")))
			return
		}
		Expect(err).NotTo(HaveOccurred())
		Expect(apierrors.IsNotFound(p.Get(ctx, crclient.ObjectKeyFromObject(dry), dry))).To(BeTrue())
	})

	both("6. an object that the cache never holds is waited for", func(ctx SpecContext, m maker, closed bool) {
		only := labels.SelectorFromSet(labels.Set{"app": "x"})
		p := m.run(ctx, cache.Options{DefaultLabelSelector: only}, crclient.CacheOptions{})
		p.watch(ctx, &corev1.ConfigMap{})
		outside := configMap(namespace, "outside", map[string]string{"app": "y"})
		Expect(p.Create(ctx, outside)).To(Succeed())
		err := p.Get(within(ctx), crclient.ObjectKeyFromObject(outside), outside)
		if closed {
			Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
		} else {
			Expect(err).To(MatchError(context.DeadlineExceeded))
		}
	})

	both("7. a read without a deadline waits for ever when the watch is broken", func(ctx SpecContext, m maker, closed bool) {
		p := m.run(ctx, cache.Options{}, crclient.CacheOptions{})
		p.watch(ctx, &corev1.ConfigMap{})
		created := configMap(namespace, "created", nil)
		Expect(p.Create(ctx, created)).To(Succeed())
		endless, end := context.WithCancel(context.Background())
		read := make(chan error, 1)
		go func() { read <- p.Get(endless, crclient.ObjectKeyFromObject(created), &corev1.ConfigMap{}) }()
		if closed {
			Eventually(read).Should(Receive(BeNil()))
			end()
			return
		}
		Consistently(read, soon).ShouldNot(Receive())
		end()
		Eventually(read).Should(Receive(MatchError(context.Canceled)))
	})

	both("8. a list waits for the writes to other objects and namespaces", func(ctx SpecContext, m maker, closed bool) {
		other := newNamespace(ctx)
		p := m.run(ctx, cache.Options{}, crclient.CacheOptions{})
		p.watch(ctx, &corev1.ConfigMap{})
		Expect(p.Create(ctx, configMap(other, "of-another-controller", nil))).To(Succeed())
		list := &corev1.ConfigMapList{}
		err := p.List(within(ctx), list, crclient.InNamespace(namespace))
		if closed {
			Expect(err).NotTo(HaveOccurred())
			Expect(list.Items).To(BeEmpty())
		} else {
			Expect(err).To(MatchError(context.DeadlineExceeded))
		}
	})

	both("9. the creation of a subresource is not seen", func(ctx SpecContext, m maker, closed bool) {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pod"},
			Spec:       corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}
		Expect(api.Create(ctx, pod)).To(Succeed())
		p := m.run(ctx, cache.Options{}, crclient.CacheOptions{})
		p.watch(ctx, &corev1.Pod{})
		Expect(p.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{})).To(Succeed())
		Expect(p.Get(ctx, crclient.ObjectKeyFromObject(pod), pod)).To(Succeed())
		if closed {
			Expect(pod.DeletionTimestamp).NotTo(BeNil())
		} else {
			Expect(pod.DeletionTimestamp).To(BeNil())
		}
	})

	both("9. a resource version that is no number is an error of the write", func(ctx SpecContext, m maker, closed bool) {
		p := m.run(ctx, cache.Options{}, crclient.CacheOptions{})
		created := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
		created.SetNamespace(namespace)
		created.SetName("created")
		aggregated := func(body []byte) []byte {
			return bytes.Replace(body, []byte(`"resourceVersion":"`), []byte(`"resourceVersion":"v`), 1)
		}
		p.writes.rewrite.Store(&aggregated)
		err := p.Create(ctx, created)
		Expect(created.GetResourceVersion()).To(HavePrefix("v"))
		if !closed {
			Expect(err).To(MatchError(ContainSubstring("failed to parse resource version")))
			return
		}
		Expect(err).NotTo(HaveOccurred())
		Expect(p.Get(ctx, crclient.ObjectKeyFromObject(created), &corev1.ConfigMap{})).To(Succeed(), "nothing waits for it")
	})

	both("10. each event starts a goroutine", func(ctx SpecContext, m maker, closed bool) {
		recording := &recordingCache{}
		p := m.run(ctx, cache.Options{}, crclient.CacheOptions{Reader: recording})
		recording.Cache = p.cache
		created := configMap(namespace, "created", nil)
		Expect(p.Create(ctx, created)).To(Succeed())
		Expect(p.Get(ctx, crclient.ObjectKeyFromObject(created), created)).To(Succeed())
		if closed {
			Expect(recording.added()).To(BeEmpty(), "no handler sees the events")
			return
		}
		Expect(recording.added()).To(HaveLen(1))
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that none ends before all have begun
		before := runtime.NumGoroutine()
		for range 100 {
			recording.added()[0].OnAdd(created, false)
		}
		Expect(runtime.NumGoroutine() - before).To(BeNumerically(">", 50))
	})
})

// recordingCache keeps the event handlers that are added.
type recordingCache struct {
	cache.Cache

	mu       sync.Mutex // guards handlers
	handlers []toolscache.ResourceEventHandler
}

var _ note.Noter = (*recordingCache)(nil)

// NoteWrite implements note.Noter.
func (c *recordingCache) NoteWrite(w note.Write) { c.Cache.(note.Noter).NoteWrite(w) }

// GetInformer implements cache.Informers.
func (c *recordingCache) GetInformer(ctx context.Context, obj crclient.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	informer, err := c.Cache.GetInformer(ctx, obj, opts...)
	return &recordingInformer{informer, c}, err
}

func (c *recordingCache) added() []toolscache.ResourceEventHandler {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.handlers
}

type recordingInformer struct {
	cache.Informer
	of *recordingCache
}

// AddEventHandler implements cache.Informer.
func (i *recordingInformer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	i.of.mu.Lock()
	defer i.of.mu.Unlock()
	i.of.handlers = append(i.of.handlers, h)
	return i.Informer.AddEventHandler(h)
}
