// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

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
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/cache"
	"github.com/tarn-dev/tarn/pkg/client"
)

// Writers through the client and behind its back write the same few objects, while the watch is held
// back, let go and cut. Reads must keep the promises of docs/consistency.md.
var _ = Describe("random writes", func() {
	It("never go back in time, and own ones are seen at once", func(ctx SpecContext) {
		seed := uint64(GinkgoRandomSeed())
		By(fmt.Sprintf("seed %d", seed))
		w := &world{ctx: ctx, namespace: newNamespace(ctx), p: ours.run(ctx, cache.Options{}, crclient.CacheOptions{})}
		w.p.watch(ctx, &corev1.ConfigMap{})
		ended := make(chan struct{})
		var writers, others sync.WaitGroup
		for n := range 4 {
			writers.Go(func() { w.write(w.p, rand.New(rand.NewPCG(seed, uint64(n))), n, true) })
		}
		writers.Go(func() { w.write(api, rand.New(rand.NewPCG(seed, 9)), 9, false) })
		for range 2 {
			others.Go(func() { w.read(ended) })
		}
		others.Go(func() { w.disturb(rand.New(rand.NewPCG(seed, 10)), ended) })
		writers.Wait()
		close(ended)
		others.Wait()

		By("agreeing with the server in the end")
		live, cached := &corev1.ConfigMapList{}, &corev1.ConfigMapList{}
		Expect(api.List(ctx, live, crclient.InNamespace(w.namespace))).To(Succeed())
		for _, opts := range [][]crclient.ListOption{nil, {client.AsCached}} {
			Eventually(func() []string {
				Expect(w.p.List(ctx, cached, append(opts, crclient.InNamespace(w.namespace))...)).To(Succeed())
				return versions(cached)
			}).Should(Equal(versions(live)))
		}
	}, SpecTimeout(4*patience))
})

// world is what the goroutines of the spec have in common.
type world struct {
	ctx       context.Context
	namespace string
	p         *program
}

const shared = 4 // objects that all write; each writer has one of its own, too

// write writes random objects with c. A writer that is known to the cache reads what it has written:
// nobody else writes its own object, so that must be what is read.
func (w *world) write(c crclient.Client, random *rand.Rand, writer int, known bool) {
	defer GinkgoRecover()
	for n := range 60 {
		own := random.IntN(2) == 0
		key := crclient.ObjectKey{Namespace: w.namespace, Name: fmt.Sprint("shared-", random.IntN(shared))}
		if own {
			key.Name = fmt.Sprint("own-", writer)
		}
		obj := configMap(key.Namespace, key.Name, map[string]string{"n": strconv.Itoa(n), "own": strconv.FormatBool(own)})
		var err error
		deleted := false
		switch choice := random.IntN(16); {
		case choice == 0 && !own:
			err, deleted = c.DeleteAllOf(w.ctx, obj, crclient.InNamespace(key.Namespace), crclient.MatchingLabels{"own": "false"}), true
		case choice < 4:
			err, deleted = c.Delete(w.ctx, obj), true
		case choice < 8:
			err = c.Create(w.ctx, obj)
		default:
			err = c.Update(w.ctx, obj) // without a resourceVersion: whatever is there
		}
		if !known {
			continue
		}
		found := &corev1.ConfigMap{}
		read := w.p.Get(w.ctx, key, found)
		Expect(crclient.IgnoreNotFound(read)).To(Succeed())
		switch {
		case err != nil && own && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err): // the answer was lost
			live := &corev1.ConfigMap{}
			Expect(crclient.IgnoreNotFound(api.Get(w.ctx, key, live))).To(Succeed())
			Expect(found.ResourceVersion).To(Equal(live.ResourceVersion), key.Name)
		case err != nil: // it was there, or was not
		case deleted && own:
			Expect(apierrors.IsNotFound(read)).To(BeTrue(), "%s was deleted, and is read at %s", key, found.ResourceVersion)
		case own:
			Expect(read).To(Succeed())
			Expect(found.ResourceVersion).To(Equal(obj.ResourceVersion))
		case !deleted && read == nil:
			Expect(number(found.ResourceVersion)).To(BeNumerically(">=", number(obj.ResourceVersion)), key.Name)
		}
	}
}

// read reads and lists until the end: no object becomes older, and a list has at least what its
// resource version says.
func (w *world) read(ended <-chan struct{}) {
	defer GinkgoRecover()
	seen := map[string]int{}
	newer := func(obj *corev1.ConfigMap) {
		now := number(obj.ResourceVersion)
		Expect(now).To(BeNumerically(">=", seen[obj.Name]), "%s went back in time", obj.Name)
		seen[obj.Name] = now
	}
	last := 0
	for n := 0; ; n++ {
		select {
		case <-ended:
			return
		default:
		}
		one := &corev1.ConfigMap{}
		key := crclient.ObjectKey{Namespace: w.namespace, Name: fmt.Sprint("shared-", n%shared)}
		if err := w.p.Get(w.ctx, key, one); !apierrors.IsNotFound(err) {
			Expect(err).NotTo(HaveOccurred())
			newer(one)
		}
		list := &corev1.ConfigMapList{}
		Expect(w.p.List(w.ctx, list, crclient.InNamespace(w.namespace))).To(Succeed())
		for i := range list.Items {
			newer(&list.Items[i])
		}
		for n := range shared {
			if name := fmt.Sprint("shared-", n); !slices.Contains(names(list), name) {
				seen[name] = max(seen[name], number(list.ResourceVersion)) // it was not there then
			}
		}
		Expect(slices.IsSorted(names(list))).To(BeTrue())
		Expect(number(list.ResourceVersion)).To(BeNumerically(">=", last))
		last = number(list.ResourceVersion)
	}
}

// disturb holds the watch back, lets it go and cuts it, and loses answers to writes.
func (w *world) disturb(random *rand.Rand, ended <-chan struct{}) {
	defer GinkgoRecover()
	for {
		w.p.watches.pass()
		w.p.writes.lose.Store(random.IntN(4) == 0)
		select {
		case <-ended:
			w.p.writes.lose.Store(false)
			w.p.watches.holdOnly("nothing") // the end of the spec lets it go
			return
		case <-time.After(time.Duration(random.IntN(10)) * time.Millisecond):
		}
		if random.IntN(5) == 0 {
			w.p.watches.cut.Add(1)
		}
		w.p.watches.hold()
		select {
		case <-ended:
		case <-time.After(time.Duration(random.IntN(30)) * time.Millisecond):
		}
	}
}

func number(resourceVersion string) int {
	n, err := strconv.Atoi(resourceVersion)
	Expect(err).NotTo(HaveOccurred())
	return n
}

func versions(list *corev1.ConfigMapList) []string {
	versions := []string{}
	for _, item := range list.Items {
		versions = append(versions, item.Name+"@"+item.ResourceVersion)
	}
	return versions
}
