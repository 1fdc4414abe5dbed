// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/cache"
	"github.com/tarn-dev/tarn/pkg/lease"
)

// mirror is an event handler that keeps the versions of the objects of which it was told, and complains about events that do not
// follow from those before.
type mirror struct {
	mu       sync.Mutex // guards what follows
	versions map[string]string
	wrong    []string
}

func (m *mirror) tell(what string, obj any, known bool) {
	if missed, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = missed.Obj
	}
	object := obj.(client.Object)
	key := client.ObjectKeyFromObject(object).String()
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, is := m.versions[key]; is != known {
		m.wrong = append(m.wrong, what+" "+key)
	}
	if m.versions[key] = object.GetResourceVersion(); what == "delete" {
		delete(m.versions, key)
	}
}

func (m *mirror) OnAdd(obj any, _ bool) { m.tell("add", obj, false) }
func (m *mirror) OnUpdate(_, obj any)   { m.tell("update", obj, true) }
func (m *mirror) OnDelete(obj any)      { m.tell("delete", obj, true) }

func (m *mirror) now() (map[string]string, []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.versions), m.wrong
}

// random makes scopes, kinds and writes of a spec by chance.
type random struct {
	*rand.Rand
	namespaces []string
}

var randomKinds = []string{"ConfigMap", "Secret"}

const randomNames = 5

func (r *random) of(all ...string) string { return all[r.IntN(len(all))] }
func (r *random) name() string            { return fmt.Sprintf("name-%d", r.IntN(randomNames)) }

// example returns an empty object, and a list, of a kind and a representation.
func (r *random) example() (client.Object, client.ObjectList) {
	gvk := corev1.SchemeGroupVersion.WithKind(r.of(randomKinds...))
	list := gvk.GroupVersion().WithKind(gvk.Kind + "List")
	var obj client.Object = &corev1.ConfigMap{}
	var all client.ObjectList = &corev1.ConfigMapList{}
	switch form := r.of("structured", "unstructured", "metadata"); {
	case form == "unstructured":
		obj, all = &unstructured.Unstructured{}, &unstructured.UnstructuredList{}
	case form == "metadata":
		obj, all = &metav1.PartialObjectMetadata{}, &metav1.PartialObjectMetadataList{}
	case gvk.Kind == "Secret":
		return &corev1.Secret{}, &corev1.SecretList{}
	default:
		return obj, all
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	all.GetObjectKind().SetGroupVersionKind(list)
	return obj, all
}

func (r *random) scope() lease.Scope {
	s := lease.Scope{Namespace: r.of(r.namespaces...)}
	switch r.IntN(4) {
	case 0:
		s.Name = r.name()
	case 1:
		s.Labels = selector("app=" + r.of("web", "db"))
	case 2:
		s.Labels = selector("app=" + r.of("web", "db"))
		s.Name = r.name()
	}
	return s
}

// write changes, creates or deletes an object, and ignores who was faster.
func (r *random) write(ctx context.Context) {
	r.writeOf(ctx, 0)
}

// writeOf is write of an object with up to so many bytes.
func (r *random) writeOf(ctx context.Context, most int) {
	meta := metav1.ObjectMeta{Namespace: r.of(r.namespaces...), Name: r.name(), Labels: map[string]string{"app": r.of("web", "db"), "n": fmt.Sprint(r.IntN(1000))}}
	text := strings.Repeat("x", r.IntN(most+1))
	var obj client.Object = &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"text": text}}
	if r.of(randomKinds...) == "Secret" {
		obj = &corev1.Secret{ObjectMeta: meta, StringData: map[string]string{"text": text}}
	}
	switch r.IntN(4) {
	case 0:
		_ = api.Delete(ctx, obj)
	case 1:
		_ = api.Create(ctx, obj)
	default:
		_ = api.Update(ctx, obj)
	}
}

// held is a lease with what is known of it.
type held struct {
	*lease.Lease
	scope   lease.Scope
	deletes bool // on release
	list    client.ObjectList
	mirror  *mirror
}

// versions lists what matches a scope.
func versions(ctx context.Context, from client.Reader, list client.ObjectList, scope lease.Scope) (map[string]string, error) {
	opts := []client.ListOption{client.InNamespace(scope.Namespace)}
	if scope.Labels != nil {
		opts = append(opts, client.MatchingLabelsSelector{Selector: scope.Labels})
	}
	if scope.Name != "" {
		opts = append(opts, client.MatchingFields{"metadata.name": scope.Name})
	}
	list = list.DeepCopyObject().(client.ObjectList)
	if err := from.List(ctx, list, opts...); err != nil {
		return nil, err
	}
	all := map[string]string{}
	return all, meta.EachListItem(list, func(obj runtime.Object) error {
		m := obj.(client.Object)
		all[client.ObjectKeyFromObject(m).String()] = m.GetResourceVersion()
		return nil
	})
}

// acquireAtOnce has some users acquire and release at once, and returns what they hold at the end.
func acquireAtOnce(ctx context.Context, c cache.Cache, chance func(n uint64) *random, users, rounds int) (last []held) {
	var all sync.WaitGroup
	var mu sync.Mutex // guards last
	for n := range users {
		r := chance(uint64(n))
		all.Go(func() {
			defer GinkgoRecover()
			mine := r.acquireMany(ctx, c, rounds)
			mu.Lock()
			defer mu.Unlock()
			last = append(last, mine...)
		})
	}
	all.Wait()
	return last
}

// acquireMany acquires leases one after the other, and releases most of them. It returns the others.
func (r *random) acquireMany(ctx context.Context, c cache.Cache, rounds int) []held {
	var mine []held
	for range rounds {
		obj, list := r.example()
		h := held{scope: r.scope(), deletes: r.IntN(2) == 0, list: list, mirror: &mirror{versions: map[string]string{}}}
		var err error
		h.Lease, err = lease.Acquire(ctx, c, obj, h.scope)
		Expect(err).NotTo(HaveOccurred())
		if h.deletes {
			h.DeleteOnRelease()
		}
		_, err = h.AddEventHandler(h.mirror)
		Expect(err).NotTo(HaveOccurred())
		if r.IntN(4) > 0 { // otherwise it may be released while it syncs
			Expect(h.WaitForSync(ctx)).To(Succeed())
			Expect(h.List(ctx, list.DeepCopyObject().(client.ObjectList))).To(Succeed())
		}
		if mine = append(mine, h); len(mine) > 3 {
			at := r.IntN(len(mine))
			Expect(mine[at].Release()).To(Succeed())
			if mine[at].deletes { // of what it knows, and of nothing twice
				Eventually(func() string {
					known, wrong := mine[at].mirror.now()
					return fmt.Sprint(len(known), wrong)
				}).Should(Equal("0 []"))
			}
			mine = append(mine[:at], mine[at+1:]...)
		}
		if r.IntN(8) == 0 {
			time.Sleep(idle)
		}
	}
	return mine
}

// agrees checks that a lease, and its event handler, have what the API server has.
func (h held) agrees(g Gomega, ctx context.Context) {
	want, err := versions(ctx, api, h.list, h.scope)
	g.Expect(err).NotTo(HaveOccurred())
	got, err := versions(ctx, h, h.list, lease.Scope{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got).To(Equal(want), "%s", h)
	told, wrong := h.mirror.now()
	g.Expect(told).To(Equal(want), "%s", h)
	g.Expect(strings.Join(wrong, ", ")).To(BeEmpty(), "%s", h)
}

var _ = Describe("Leases that many acquire and release beside writers", func() {
	It("lose no event, read what the server has, and leave nothing", func(ctx SpecContext) {
		const users, rounds = 16, 25
		namespaces := []string{newNamespace(ctx), newNamespace(ctx), ""}
		c, requests := started(ctx, cache.Tuning{}, cache.Options{})
		chance := func(n uint64) *random {
			return &random{rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), n)), namespaces}
		}
		writing, stopWriting := context.WithCancel(ctx)
		var writers sync.WaitGroup
		for n := range 3 {
			r := chance(uint64(1000 + n))
			r.namespaces = namespaces[:2]
			writers.Go(func() {
				for writing.Err() == nil {
					r.write(writing)
					time.Sleep(time.Millisecond)
				}
			})
		}
		last := acquireAtOnce(ctx, c, chance, users, rounds)
		stopWriting()
		writers.Wait()
		Eventually(func() int { return len(requests.Open()) - len(informersOf(c)) }).Should(BeNumerically("<=", 0)) // one that ends may still watch
		for _, h := range last {
			Eventually(h.agrees).WithArguments(ctx).Should(Succeed())
			Expect(h.Release()).To(Succeed())
		}
		Eventually(requests.Open).Should(BeEmpty())
		Eventually(func() []string { return informersOf(c) }).Should(BeEmpty())
	})
})
