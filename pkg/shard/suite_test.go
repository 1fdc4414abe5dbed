// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package shard_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/specs"
	"github.com/tarn-dev/tarn/pkg/shard"
)

func TestShard(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Shard Suite")
}

var (
	cfg *rest.Config
	api client.Client // reads from the API server
)

var _ = BeforeSuite(func(ctx SpecContext) { _, cfg, api = specs.EitherServer(ctx) })

// replica is a ring that runs.
type replica struct {
	*shard.Ring
	stop  context.CancelFunc
	ended chan error
}

// newRing returns the ring of a replica in a namespace. Its key is a field, or the default if that is empty.
func newRing(namespace, member, key string) *shard.Ring {
	GinkgoHelper()
	leases, err := coordinationclient.NewForConfig(cfg)
	Expect(err).NotTo(HaveOccurred())
	ring, err := shard.New(shard.Options{Ring: "shop", Member: member, Key: key, Client: leases, Namespace: namespace, Logger: GinkgoLogr})
	Expect(err).NotTo(HaveOccurred())
	return ring
}

// start starts a replica in a namespace.
func start(ctx context.Context, namespace, member string) *replica {
	GinkgoHelper()
	return run(ctx, newRing(namespace, member, ""))
}

// run runs a replica.
func run(ctx context.Context, ring *shard.Ring) *replica {
	GinkgoHelper()
	ctx, stop := context.WithCancel(ctx)
	r := &replica{ring, stop, make(chan error, 1)}
	go func() { r.ended <- ring.Start(ctx) }()
	DeferCleanup(func() {
		stop()
		Eventually(r.ended).Should(Receive(Succeed()))
	})
	return r
}

// keysOf counts the keys of which each replica may write, and those that are not of one replica.
func keysOf(replicas ...*replica) (counts []int, notOne int) {
	counts = make([]int, len(replicas))
	for i := range 200 {
		holders := 0
		for j, r := range replicas {
			if r.Check(fmt.Sprintf("namespace-%d", i)) == nil {
				counts[j]++
				holders++
			}
		}
		if holders != 1 {
			notOne++
		}
	}
	return counts, notOne
}

var _ = Describe("A ring", func() {
	It("shares keys among replicas that come and go, with Leases that others can read", func(ctx SpecContext) {
		namespace := specs.Namespace(ctx, api, "shard-")
		a := start(context.WithoutCancel(ctx), namespace, "a")
		Eventually(func() error { return a.Check("namespace-0") }).Should(Succeed())
		b, c := start(context.WithoutCancel(ctx), namespace, "b"), start(context.WithoutCancel(ctx), namespace, "c")
		Eventually(func(g Gomega) {
			counts, notOne := keysOf(a, b, c)
			g.Expect(notOne).To(BeZero())
			g.Expect(counts).To(HaveEach(BeNumerically(">", 30)))
		}).Should(Succeed())
		leases := &coordinationv1.LeaseList{}
		Expect(api.List(ctx, leases, client.InNamespace(namespace), client.MatchingLabels{"shard.tarn.dev/ring": "shop"})).To(Succeed())
		Expect(leases.Items).To(HaveLen(3))
		Expect(a.Members()).To(HaveLen(3))

		changed := a.Changed()
		b.stop()
		Eventually(b.ended).Should(Receive(Succeed()))
		b.ended <- nil
		Eventually(changed).Should(BeClosed())
		Eventually(func(g Gomega) {
			_, notOne := keysOf(a, c)
			g.Expect(notOne).To(BeZero())
		}).Should(Succeed())
		err := b.Check("namespace-0")
		Expect(errors.As(err, new(*shard.NotOwnedError))).To(BeTrue())
		Expect(err).To(MatchError(ContainSubstring("it has left")))
		Expect(api.List(ctx, leases, client.InNamespace(namespace))).To(Succeed())
		Expect(leases.Items).To(HaveLen(2))
	})

	It("notices that a Lease was deleted, and joins again", func(ctx SpecContext) {
		namespace := specs.Namespace(ctx, api, "shard-")
		a := start(context.WithoutCancel(ctx), namespace, "a")
		Eventually(func() error { return a.Check("namespace-0") }).Should(Succeed())
		held, release, err := a.Hold(ctx, "namespace-0")
		Expect(err).NotTo(HaveOccurred())
		defer release()
		before := a.Members()["a"]
		lease := &coordinationv1.Lease{}
		lease.Namespace, lease.Name = namespace, "shop-a"
		Expect(api.Delete(ctx, lease)).To(Succeed())
		Eventually(held.Done()).Should(BeClosed())
		Expect(context.Cause(held)).To(MatchError(ContainSubstring("its Lease was deleted")))
		Eventually(func() error { return a.Check("namespace-0") }).Should(Succeed())
		Expect(a.Members()["a"]).NotTo(Equal(before))
	})

	It("takes over the Lease of a member that is no more", func(ctx SpecContext) {
		namespace := specs.Namespace(ctx, api, "shard-")
		lease := &coordinationv1.Lease{}
		lease.Namespace, lease.Name, lease.Labels = namespace, "shop-old", map[string]string{"shard.tarn.dev/ring": "shop"}
		holder, seconds := "old_1", int32(2)
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &holder, &seconds
		Expect(api.Create(ctx, lease)).To(Succeed())
		a := start(context.WithoutCancel(ctx), namespace, "a")
		Eventually(a.Members).Should(HaveLen(2))
		Expect(a.Check("namespace-0")).NotTo(Succeed())
		Eventually(func() error { return a.Check("namespace-0") }).Should(Succeed())
		Eventually(func() error { return api.Get(ctx, client.ObjectKeyFromObject(lease), lease) }).Should(MatchError(ContainSubstring("not found")))
	})
})
