// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/cache"
)

// write is change of a ConfigMap.
func write(ctx context.Context, r *rand.Rand, namespaces []string) {
	obj := configMap(namespaces[r.IntN(len(namespaces))], fmt.Sprintf("name-%d", r.IntN(5)), strconv.Itoa(r.IntN(1000)))
	change(ctx, r, obj)
}

// change changes, creates or deletes an object by chance, and ignores who was faster.
func change(ctx context.Context, r *rand.Rand, obj client.Object) {
	switch r.IntN(4) {
	case 0:
		_ = api.Delete(ctx, obj, &client.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
	case 1:
		_ = api.Create(ctx, obj)
	default:
		_ = api.Update(ctx, obj)
	}
}

// some returns some of the namespaces, by chance.
func some(r *rand.Rand, namespaces []string) []string {
	return slices.DeleteFunc(slices.Clone(namespaces), func(string) bool { return r.IntN(2) == 0 })
}

// listener is a handler that a spec has added.
type listener struct {
	*picture
	informer cache.Informer
	added    toolscache.ResourceEventHandlerRegistration
	list     client.ObjectList
}

// listenAtRandom adds handlers of all representations while others change the namespaces, and removes some. Some are slow.
func listenAtRandom(ctx context.Context, r *rand.Rand, c cache.Cache, rounds int) (last []listener) {
	representations := []string{"structured", "unstructured", "metadata"}
	for n := range rounds {
		obj, list := ofConfigMaps(representations[n%len(representations)])
		informer, err := c.GetInformer(ctx, obj, cache.BlockUntilSynced(r.IntN(2) == 0))
		Expect(err).NotTo(HaveOccurred())
		l, slow := listener{picture: &picture{}, informer: informer, list: list}, r.IntN(3) == 0
		l.added, err = informer.AddEventHandler(toolscache.FilteringResourceEventHandler{
			FilterFunc: func(obj any) bool {
				if missed, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
					obj = missed.Obj
				}
				if slow {
					time.Sleep(time.Millisecond)
				}
				return obj.(client.Object).GetName() != "kube-root-ca.crt"
			},
			Handler: l.picture,
		})
		Expect(err).NotTo(HaveOccurred())
		if last = append(last, l); r.IntN(2) == 0 {
			Expect(informer.RemoveEventHandler(l.added)).To(Succeed())
			last = last[:len(last)-1]
		}
		Expect(c.List(ctx, list.DeepCopyObject().(client.ObjectList))).To(Succeed())
	}
	return last
}

var _ = Describe("Namespaces that change beside writers and handlers", func() {
	DescribeTable("are told to handlers as the server has them, and no others are asked for", func(ctx SpecContext, storage cache.Storage, number int) {
		const listeners, rounds, changes = 4, 12, 60
		seed := uint64(GinkgoRandomSeed())
		chance := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, n)) }
		namespaces := make([]string, number)
		for n := range namespaces {
			namespaces[n] = newNamespace(ctx)
		}
		outside := []string{namespaces[0], namespaces[number-1]}
		never := newNamespace(ctx)
		c, visited := startedLive(ctx, cache.Tuning{TuningByObject: cache.TuningByObject{Storage: storage, Window: 4}}, namespaces[0])

		writing, stopWriting := context.WithCancel(ctx)
		var writers, users sync.WaitGroup
		for n := range 3 {
			r := chance(uint64(100 + n))
			writers.Go(func() {
				for writing.Err() == nil {
					write(writing, r, append(namespaces, never))
					time.Sleep(time.Millisecond)
				}
			})
		}
		all := make([][]listener, listeners)
		for n := range listeners {
			users.Go(func() {
				defer GinkgoRecover()
				all[n] = listenAtRandom(ctx, chance(uint64(n)), c, rounds)
			})
		}
		users.Go(func() {
			defer GinkgoRecover()
			for r := range changes {
				Expect(setNamespaces(ctx, c, some(chance(uint64(200+r)), namespaces)...)).To(Succeed())
				time.Sleep(time.Duration(chance(uint64(300+r)).IntN(20)) * time.Millisecond)
			}
		})
		users.Wait()

		inside := namespaces[1 : number-1]
		Expect(setNamespaces(ctx, c, inside...)).To(Succeed())
		Expect(c.WaitForCacheSync(ctx)).To(BeTrue())
		if len(inside) < 8 {
			Eventually(visited.Open).Should(Equal(slices.Sorted(slices.Values(inside))))
		} else {
			// Of each representation that has a watch, seven namespaces have one as well, which may be other ones, and the others share one.
			watched := 3
			if storage == cache.OneWatch {
				watched = 1
			}
			Eventually(visited.Open).Should(ContainElement(""))
			Eventually(visited.Watches).Should(BeNumerically("<=", 8*watched), "one watch for many")
		}
		before := visited.MadeFor(outside)
		time.Sleep(10 * time.Millisecond) // for some more writes
		stopWriting()
		writers.Wait()
		for _, l := range slices.Concat(all...) {
			Eventually(func(g Gomega) {
				want, err := versionsOf(ctx, api, l.list, inside...)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(versionsOf(ctx, c, l.list, "")).To(Equal(want))
				told, wrong := l.now()
				if told == nil {
					told = map[string]string{}
				}
				g.Expect(told).To(Equal(want))
				g.Expect(wrong).To(BeEmpty())
			}).Should(Succeed(), "seed %d", seed)
			Expect(l.added.HasSynced()).To(BeTrue())
			Expect(l.informer.RemoveEventHandler(l.added)).To(Succeed())
		}
		Expect(visited.Made(never)).To(BeZero())
		Expect(visited.MadeFor(outside)).To(Equal(before), "nothing is asked of what has left")
	},
		Entry("kept flat", cache.Flat, 4),
		Entry("with one watch of all representations", cache.OneWatch, 4),
		Entry("many, kept flat", cache.Flat, 14),
		Entry("many, with one watch of all representations", cache.OneWatch, 14),
	)
})
