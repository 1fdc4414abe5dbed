// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/scoped"
	"github.com/tarn-dev/tarn/pkg/cache"
	"github.com/tarn-dev/tarn/pkg/lease"
)

// gathered sums the series of a metric that have a value of a label, which tells what it is of.
func gathered(g Gomega, from prometheus.Gatherer, name, value string) (sum float64, there bool) {
	return labelled(g, from, name, "what", value)
}

// ofKind sums the series of a metric of a kind.
func ofKind(g Gomega, from prometheus.Gatherer, name, kind string) (sum float64, there bool) {
	return labelled(g, from, name, "kind", kind)
}

func labelled(g Gomega, from prometheus.Gatherer, name, label, value string) (sum float64, there bool) {
	families, err := from.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				if family.GetName() == name && l.GetName() == label && l.GetValue() == value {
					sum, there = sum+m.GetCounter().GetValue()+m.GetGauge().GetValue(), true
					break
				}
			}
		}
	}
	return sum, there
}

// selectorsOf returns what the informers of leases select, in order.
func selectorsOf(c cache.Cache) (selectors []string) {
	of := c.(interface {
		Leases(func() scoped.Leases) scoped.Leases
	})
	for _, m := range of.Leases(nil).Maps() {
		selectors = append(selectors, m.Describe(schema.GroupVersionKind{}))
	}
	slices.Sort(selectors)
	return selectors
}

// TestInformersWithoutLeasesAreEvicted has informers of Secrets of 32 KB, of which one is leased and the others wait for their idle time,
// an hour.
func TestInformersWithoutLeasesAreEvicted(t *testing.T) {
	of := func(bytes int64) cache.TuningByObject { return cache.TuningByObject{MaxBytes: bytes} }
	const one = 40 << 10 // a Secret, and what keeps it
	for name, test := range map[string]struct {
		tuning cache.Tuning
		left   []int
	}{
		"no bound":                      {cache.Tuning{}, []int{0, 1, 2, 3, 4, 5}},
		"within the bounds":             {cache.Tuning{MaxBytes: 6 * one, TuningByObject: of(6 * one)}, []int{0, 1, 2, 3, 4, 5}},
		"of the cache":                  {cache.Tuning{MaxBytes: 3 * one}, []int{0, 4, 5}},
		"of the kind":                   {cache.Tuning{TuningByObject: of(3 * one)}, []int{0, 4, 5}},
		"of another kind":               {cache.Tuning{ByObject: map[client.Object]cache.TuningByObject{&corev1.Pod{}: of(1)}}, []int{0, 1, 2, 3, 4, 5}},
		"of the kind, and of the cache": {cache.Tuning{MaxBytes: 1, ByObject: map[client.Object]cache.TuningByObject{&corev1.Secret{}: of(3 * one)}}, []int{0}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, ctx, registry := NewWithT(t), t.Context(), prometheus.NewRegistry()
				test.tuning.LeaseIdleTime, test.tuning.Registerer = time.Hour, registry
				c, stop := onFakeServerWith(t, test.tuning, answer, cache.Options{})
				defer stop()
				var held []*lease.Lease
				for i := range 6 {
					secret, err := lease.Acquire(ctx, c, &corev1.Secret{}, lease.Scope{Namespace: "shop", Name: fmt.Sprint("secret-", i)})
					g.Expect(err).NotTo(HaveOccurred())
					g.Expect(secret.WaitForSync(ctx)).To(Succeed())
					held = append(held, secret)
				}
				time.Sleep(5 * time.Second)
				g.Expect(selectorsOf(c)).To(HaveLen(6), "none is evicted that is leased")
				evictions, _ := gathered(g, registry, "tarn_cache_evictions_total", "informer")
				g.Expect(evictions).To(BeZero())
				for _, i := range []int{1, 2, 3, 4, 5} { // all within a second
					g.Expect(held[i].Release()).To(Succeed())
					time.Sleep(time.Millisecond)
				}
				time.Sleep(2 * time.Second)
				var want []string
				for _, i := range test.left {
					want = append(want, fmt.Sprintf("the field selector %q", fmt.Sprint("metadata.name=secret-", i)))
				}
				g.Expect(selectorsOf(c)).To(Equal(want))
				evictions, _ = gathered(g, registry, "tarn_cache_evictions_total", "informer")
				g.Expect(evictions).To(BeEquivalentTo(6 - len(want)))
				g.Expect(held[0].Get(ctx, client.ObjectKey{Namespace: "shop", Name: "secret-0"}, &corev1.Secret{})).To(Succeed())

				again, err := lease.Acquire(ctx, c, &corev1.Secret{}, lease.Scope{Namespace: "shop", Name: "secret-1"})
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(again.Get(ctx, client.ObjectKey{Namespace: "shop", Name: "secret-1"}, &corev1.Secret{})).To(Succeed())
				g.Expect(again.Release()).To(Succeed())
			})
		})
	}
}

// copying answers a list of the metadata of Secrets, one watch, and GETs of Secrets of 32 KB, whose names it notes. A GET of secret-3 has
// a newer version than the list.
type copying struct {
	mu     sync.Mutex // guards what follows
	gets   []string
	events *io.PipeWriter
}

func (s *copying) answer(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.URL.Query().Has("watch") {
		var response *http.Response
		response, s.events = answerWatch(r)
		return response, nil
	}
	if name := path.Base(r.URL.Path); name != "secrets" {
		s.gets = append(s.gets, name)
		version := "1"
		if name == "secret-3" {
			version = "9"
		}
		text, err := json.Marshal(corev1.Secret{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, ResourceVersion: version},
			Data: map[string][]byte{"key": bytes.Repeat([]byte(name[:8]), 4<<10)},
		})
		return answerWith(r, http.StatusOK, bytes.NewReader(text)), err
	}
	list := metav1.PartialObjectMetadataList{
		TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}, ListMeta: metav1.ListMeta{ResourceVersion: "2"},
	}
	for i := range 4 {
		list.Items = append(list.Items, metadataOf(i))
	}
	text, err := json.Marshal(list)
	return answerWith(r, http.StatusOK, bytes.NewReader(text)), err
}

func metadataOf(i int) metav1.PartialObjectMetadata {
	return metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("secret-", i), ResourceVersion: "1"},
	}
}

// taken returns the names of the GETs since the last call.
func (s *copying) taken() (gets []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gets, s.gets = s.gets, nil
	return gets
}

// TestCopiesAreEvicted has a bound with room for two copies of Secrets. The copy that was read longest ago is evicted, and read again
// from the API server, also when the metadata tell of an older object that is gone.
func TestCopiesAreEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, server, registry := NewWithT(t), &copying{}, prometheus.NewRegistry()
		c, stop := onFakeServerWith(t, cache.Tuning{TuningByObject: cache.TuningByObject{MaxBytes: 90 << 10}, Registerer: registry}, server.answer, cache.Options{})
		defer stop()
		k, err := control(c, func(refs *lease.References[string]) { refs.SetNameWatches(0) }, 1, func(ctx context.Context, refs client.Reader, request string) error {
			return refs.Get(ctx, named("shop", request), &corev1.Secret{})
		})
		g.Expect(err).NotTo(HaveOccurred())
		defer k.stop()
		read := func(i int) (gets []string) {
			name := fmt.Sprint("secret-", i)
			before := k.Calls(name)()
			k.queue.Add(name)
			time.Sleep(100 * time.Millisecond)
			g.Expect(k.Calls(name)()).To(Equal(before+1), "it has succeeded")
			return server.taken()
		}
		evictions := func() float64 {
			sum, _ := gathered(g, registry, "tarn_cache_evictions_total", "copy")
			return sum
		}
		read(0) // and again, when the informer has synced
		g.Expect(read(1)).To(Equal([]string{"secret-1"}))
		time.Sleep(2500 * time.Millisecond)
		g.Expect(read(0)).To(BeEmpty())
		g.Expect(evictions()).To(BeZero())
		g.Expect(read(2)).To(Equal([]string{"secret-2"}))
		time.Sleep(1500 * time.Millisecond)
		g.Expect(evictions()).To(Equal(1.0))
		g.Expect(slices.Concat(read(0), read(2))).To(BeEmpty())
		g.Expect(read(1)).To(Equal([]string{"secret-1"}), "that was read longest ago")

		g.Expect(read(3)).To(Equal([]string{"secret-3"}))
		time.Sleep(2500 * time.Millisecond)
		g.Expect(evictions()).To(Equal(3.0))
		for i := range 3 {
			read(i)
		}
		time.Sleep(1500 * time.Millisecond)
		g.Expect(evictions()).To(BeNumerically(">=", 4.0), "secret-3 too")
		server.taken()
		deleted := metadataOf(3)
		deleted.ResourceVersion = "3"
		gone, err := json.Marshal(deleted)
		g.Expect(err).NotTo(HaveOccurred())
		_, err = fmt.Fprintf(server.events, `{"type":"DELETED","object":%s}`, gone)
		g.Expect(err).NotTo(HaveOccurred())
		time.Sleep(100 * time.Millisecond)
		g.Expect(server.taken()).To(ContainElement("secret-3"), "it is woken, and finds what was created since")
	})
}

var _ = Describe("Leases and references under a bound in bytes", func() {
	It("lose nothing, and are within the bound when what is held permits it", func(ctx SpecContext) {
		const users, rounds, most = 6, 25, 60 << 10
		namespaces, registry := []string{newNamespace(ctx), newNamespace(ctx), ""}, prometheus.NewRegistry()
		c, _ := started(ctx, cache.Tuning{MaxBytes: 400 << 10, TuningByObject: cache.TuningByObject{MaxBytes: 300 << 10}, LeaseIdleTime: time.Hour, Registerer: registry}, cache.Options{})
		chance := func(n uint64) *random {
			return &random{rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), n)), namespaces}
		}
		var seen sync.Map // the version that each request has read last
		k := runWith(c, func(refs *lease.References[string]) { refs.SetNameWatches(0) }, 2, func(ctx context.Context, refs client.Reader, request string) error {
			namespace, name, _ := strings.Cut(request, "/")
			secret := &corev1.Secret{}
			err := refs.Get(ctx, named(namespace, name), secret)
			if client.IgnoreNotFound(err) == nil {
				seen.Store(request, secret.ResourceVersion)
			}
			return client.IgnoreNotFound(err)
		})
		writing, stopWriting := context.WithCancel(ctx)
		var writers sync.WaitGroup
		for n := range 2 {
			r := chance(uint64(1000 + n))
			r.namespaces = namespaces[:2]
			writers.Go(func() {
				for writing.Err() == nil {
					r.writeOf(writing, most)
					k.queue.Add(r.of(r.namespaces...) + "/" + r.name())
					time.Sleep(5 * time.Millisecond)
				}
			})
		}
		last := acquireAtOnce(ctx, c, chance, users, rounds)
		stopWriting()
		writers.Wait()
		for _, h := range last {
			Eventually(h.agrees).WithArguments(ctx).Should(Succeed())
		}
		seen.Range(func(request, _ any) bool {
			namespace, name, _ := strings.Cut(request.(string), "/")
			Eventually(func(g Gomega) {
				secret := &corev1.Secret{}
				g.Expect(client.IgnoreNotFound(api.Get(ctx, named(namespace, name), secret))).To(Succeed())
				version, _ := seen.Load(request)
				g.Expect(version).To(Equal(secret.ResourceVersion), "%s", request)
			}).Should(Succeed())
			return true
		})
		for i := range 5 { // more than there is room for
			large := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespaces[0], Name: fmt.Sprint("large-", i)}, StringData: map[string]string{"text": strings.Repeat("x", 100<<10)}}
			create(ctx, large)
		}
		all, err := lease.Acquire(ctx, c, &corev1.Secret{}, lease.Scope{Namespace: namespaces[0]})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func(g Gomega) {
			secrets := &corev1.SecretList{}
			g.Expect(all.List(ctx, secrets)).To(Succeed())
			g.Expect(len(secrets.Items)).To(BeNumerically(">=", 5))
		}).Should(Succeed())
		Expect(all.Release()).To(Succeed())
		for _, h := range last {
			Expect(h.Release()).To(Succeed())
		}
		k.stop()
		Eventually(func(g Gomega) {
			informers, _ := gathered(g, registry, "tarn_cache_evictions_total", "informer")
			g.Expect(informers).To(BeNumerically(">", 0), "evicted")
			for _, kind := range []string{"", "ConfigMap", "Secret"} {
				bytes, _ := ofKind(g, registry, "tarn_cache_bytes", kind) // none if all was evicted
				bound, _ := ofKind(g, registry, "tarn_cache_max_bytes", kind)
				g.Expect(bytes).To(BeNumerically("<=", bound), kind)
			}
		}).WithTimeout(3 * time.Minute).Should(Succeed()) // bytes are estimated for a hundredth of the time, which takes long on a busy machine
	})
})
