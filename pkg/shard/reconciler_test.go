// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tarn-dev/tarn/internal/note"
)

func requestOf(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

// again returns after which time a request that is refused comes back, and -1 if it fails.
func (w *world) again(r *replica, req reconcile.Request) time.Duration {
	of := r.ring.Reconciler(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		w.fail("%s reconciles %s", r, req)
		return reconcile.Result{}, nil
	}))
	result, err := of.Reconcile(w.t.Context(), req)
	if refused := (*NotOwnedError)(nil); err != nil && !errors.As(err, &refused) {
		w.fail("%s refuses %s with another error: %v", r, req, err)
	} else if err != nil {
		return -1
	}
	return result.RequeueAfter
}

// TestRequestsAreReconciledByTheirReplica: a request is reconciled where its key is; the others drop it, or ask again.
func TestRequestsAreReconciledByTheirReplica(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		g := NewWithT(t)
		a, b := w.startOne("a"), w.startOne("b")
		time.Sleep(joining)
		mine, theirs, failed := ownedBy(t, a), ownedBy(t, b), errors.New("failed")
		reconciles := 0
		of := a.ring.Reconciler(reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
			reconciles++
			g.Expect(note.CheckFence(ctx)).To(Succeed())
			return reconcile.Result{RequeueAfter: time.Hour}, failed
		}))
		result, err := of.Reconcile(t.Context(), requestOf(mine, "x"))
		g.Expect(err).To(MatchError(failed))
		g.Expect(result).To(Equal(reconcile.Result{RequeueAfter: time.Hour}))
		_, err = of.Reconcile(t.Context(), requestOf("", mine))
		g.Expect(err).To(MatchError(failed), "the key of an object without a namespace is its name")
		g.Expect(reconciles).To(Equal(2))

		g.Expect(w.again(a, requestOf(theirs, "x"))).To(BeEquivalentTo(-1), "nothing tells of it later")
		g.Expect(a.ring.Term(theirs)).To(BeZero())
		g.Expect(w.again(a, requestOf(theirs, "x"))).To(BeZero(), "a cache does")
		g.Expect(w.again(a, requestOf("", theirs))).To(BeEquivalentTo(-1), "no cache does")
		g.Expect(a.ring.Source(configMaps{}, &corev1.ConfigMapList{}).Start(w.ctx, nil)).To(Succeed())
		g.Expect(w.again(a, requestOf("", theirs))).To(BeZero(), "a source does")
	})
}

// TestRequestsWithoutTheirKeys: a request has no label, so it is read from the object.
func TestRequestsWithoutTheirKeys(t *testing.T) {
	g := NewWithT(t)
	ring, err := New(Options{Ring: "shop", Member: "a", Key: "metadata.labels['tenant']", Client: &link{}, Namespace: "default"})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = ring.Reconciler(nil).Reconcile(t.Context(), requestOf("x", "y"))
	g.Expect(err).To(MatchError(ContainSubstring("is metadata.labels['tenant'], which a request does not have")))
	g.Expect(errors.Is(err, reconcile.TerminalError(nil))).To(BeTrue())
	failed := 1
	by := ring.ReconcilerBy(nil, configMaps{keys: []string{"t"}, failed: &failed}, &corev1.ConfigMap{})
	_, err = by.Reconcile(t.Context(), requestOf("t", "x"))
	g.Expect(err).To(MatchError("not now"))
	_, err = by.Reconcile(t.Context(), requestOf("t", "x"))
	g.Expect(err).To(MatchError(ContainSubstring(`member a of ring shop may not work on "tenant-t"`)))
	_, err = by.Reconcile(t.Context(), requestOf("gone", "x"))
	g.Expect(err).NotTo(HaveOccurred())
}

// TestKeysByLabel: the objects of one tenant have one owner, wherever they are.
func TestKeysByLabel(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		g := NewWithT(t)
		w.key = "metadata.labels['tenant']"
		a, all := w.startOne("a"), configMaps{}
		w.startOne("b")
		time.Sleep(5 * time.Second)
		for i := range 40 {
			all.keys = append(all.keys, fmt.Sprint(i))
		}
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		defer queue.ShutDown()
		g.Expect(a.ring.Source(all, &corev1.ConfigMapList{}).Start(w.ctx, queue)).To(Succeed())
		time.Sleep(joining)
		reconciled := map[string]bool{}
		by := a.ring.ReconcilerBy(reconcile.Func(func(_ context.Context, req reconcile.Request) (reconcile.Result, error) {
			reconciled[req.Namespace] = true
			return reconcile.Result{}, nil
		}), all, &corev1.ConfigMap{})
		mine := map[string]bool{}
		for _, key := range all.keys {
			if ownersBetween("tenant-"+key, "shop-a", "shop-b") == "shop-a" {
				mine[key] = true
			}
			g.Expect(by.Reconcile(t.Context(), requestOf(key, "x"))).To(BeZero())
		}
		g.Expect(reconciled).To(And(Not(BeEmpty()), Equal(mine)))
		told := map[string]bool{}
		for queue.Len() > 0 {
			req, _ := queue.Get()
			queue.Done(req)
			told[req.Namespace] = true
		}
		g.Expect(told).To(Equal(mine))
	})
}

// configMaps are read.
type configMaps struct {
	client.Reader
	keys   []string // the namespaces
	failed *int     // so many reads fail yet
}

// List implements client.Reader.
func (c configMaps) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	if c.failed != nil && *c.failed > 0 {
		*c.failed--
		return errors.New("not now")
	}
	for _, key := range c.keys {
		into.(*corev1.ConfigMapList).Items = append(into.(*corev1.ConfigMapList).Items, corev1.ConfigMap{ObjectMeta: metaOf(key)})
	}
	return nil
}

// Get implements client.Reader.
func (c configMaps) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	switch {
	case c.failed != nil && *c.failed > 0:
		*c.failed--
		return errors.New("not now")
	case !slices.Contains(c.keys, key.Namespace):
		return apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, key.Name)
	}
	into.(*corev1.ConfigMap).ObjectMeta = metaOf(key.Namespace)
	return nil
}

func metaOf(namespace string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: "x", Labels: map[string]string{"tenant": "tenant-" + namespace}}
}

// TestASourceTellsOfKeysThatAreGained when this replica has joined, and when others have left: of all that is new, and of nothing else.
func TestASourceTellsOfKeysThatAreGained(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		g := NewWithT(t)
		failed := new(int)
		all := configMaps{failed: failed}
		for i := range 40 {
			all.keys = append(all.keys, fmt.Sprintf("key-%d", i))
		}
		a := w.startOne("a")
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		defer queue.ShutDown()
		told := func() (keys []string) {
			time.Sleep(5 * time.Second)
			for queue.Len() > 0 {
				req, _ := queue.Get()
				queue.Done(req)
				keys = append(keys, req.Namespace)
			}
			slices.Sort(keys)
			return keys
		}
		ofB := slices.DeleteFunc(slices.Clone(all.keys), func(key string) bool { return ownersBetween(key, "shop-a", "shop-b") == "shop-a" })
		slices.Sort(ofB)
		g.Expect(a.ring.Source(all, &corev1.ConfigMapList{}).Start(w.ctx, queue)).To(Succeed())
		g.Expect(told()).To(HaveLen(40))
		b := w.startOne("b")
		g.Expect(told()).To(BeEmpty())
		*failed = 1
		b.stop()
		g.Expect(told()).To(Equal(ofB))
		g.Expect(told()).To(BeEmpty())
	})
}

// TestAReconcileThatWasCancelledIsNotDone, also if it says so.
func TestAReconcileThatWasCancelledIsNotDone(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		g := NewWithT(t)
		a := w.startOne("a")
		time.Sleep(joining)
		term := a.ring.Term("key")
		a.link.setCut(true)
		result, err := a.ring.Reconciler(reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
			<-ctx.Done()
			return reconcile.Result{}, nil
		})).Reconcile(t.Context(), requestOf("key", "x"))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(result.RequeueAfter).To(Equal(500 * time.Millisecond))
		g.Expect(a.ring.Term("key")).To(Equal(term), "nobody else had it")
	})
}

// TestAReconcileThatLosesItsKey: its context ends, its writes are refused, its error is none, and the next owner waits for it.
func TestAReconcileThatLosesItsKey(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		g := NewWithT(t)
		a := w.startOne("a")
		time.Sleep(joining)
		key := ""
		for i := 0; key == "" || ownersBetween(key, "shop-a", "shop-b") == "shop-a"; i++ {
			key = fmt.Sprintf("key-%d", i)
		}
		before, soon := a.ring.Term(key), 500*time.Millisecond
		g.Expect(before).NotTo(BeZero())
		ended := make(chan time.Duration)
		go func() {
			result, err := a.ring.Reconciler(reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
				<-ctx.Done()
				g.Expect(errors.As(note.CheckFence(ctx), new(*NotOwnedError))).To(BeTrue())
				return reconcile.Result{}, ctx.Err()
			})).Reconcile(t.Context(), requestOf(key, "x"))
			g.Expect(err).NotTo(HaveOccurred())
			ended <- result.RequeueAfter
		}()
		b := w.startOne("b")
		time.Sleep(5 * time.Second)
		g.Expect(a.ring.Owner(key)).To(Equal("b"))
		g.Expect(a.ring.Term(key)).To(Equal(before), "work on it goes on")
		g.Expect(b.ring.Term(key)).NotTo(BeZero(), "its cache begins")
		g.Expect(w.again(b, requestOf(key, "x"))).To(Equal(soon))
		g.Expect(w.again(a, requestOf(key, "y"))).To(Equal(soon), "it may be ours again")
		g.Expect(<-ended).To(Equal(soon))
		time.Sleep(time.Second)
		g.Expect(w.again(a, requestOf(key, "x"))).To(BeZero())
		g.Expect(b.ring.Check(key)).To(Succeed())
		b.stop()
		time.Sleep(5 * time.Second)
		g.Expect(a.ring.Term(key)).To(BeNumerically(">", before), "it was another's")
	})
}

// TestTermsOfKeysThatNobodyElseHad: a member that comes and goes begins new terms of its own keys alone.
func TestTermsOfKeysThatNobodyElseHad(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		g := NewWithT(t)
		a := w.startOne("a")
		time.Sleep(joining)
		terms := map[string]uint64{}
		for i := range 40 {
			key := fmt.Sprintf("key-%d", i)
			terms[key] = a.ring.Term(key)
			g.Expect(terms[key]).NotTo(BeZero())
		}
		for range 3 {
			b := w.startOne("b")
			time.Sleep(5 * time.Second)
			b.stop()
			time.Sleep(5 * time.Second)
			for key, before := range terms {
				terms[key] = a.ring.Term(key)
				g.Expect(terms[key] > before).To(Equal(ownersBetween(key, "shop-a", "shop-b") == "shop-b"), key)
			}
		}
		for i := range 2 * maxDeparted {
			a.ring.update(func(v *view, _ time.Time) []*hold {
				v.members["x"] = &member{name: fmt.Sprint(i), id: "x"}
				v.version++
				return nil
			})
			a.ring.update(func(v *view, _ time.Time) []*hold { v.end(v.members["x"]); return nil })
		}
		g.Expect(len(a.ring.terms.departed)).To(BeNumerically("<=", maxDeparted+1))
		for key, before := range terms {
			g.Expect(a.ring.Term(key)).To(BeNumerically(">", before), "what is forgotten may have been of any key")
		}
	})
}
