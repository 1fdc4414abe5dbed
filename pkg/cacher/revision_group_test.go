// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"context"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher/delegator"
	etcdfeature "k8s.io/apiserver/pkg/storage/feature"
)

// progressing is an etcd that reports its progress.
type progressing struct{}

func (progressing) Endpoints() []string { return []string{"progressing"} }

func (progressing) Status(context.Context, string) (*clientv3.StatusResponse, error) {
	return &clientv3.StatusResponse{Version: "3.6.0"}, nil
}

// expiring returns a Cacher of Pods one to four. Some may go at one revision.
func expiring(t *testing.T) (*Cacher, *reflectorStore) {
	etcdfeature.DefaultFeatureSupportChecker.CheckClient(context.Background(), progressing{}, storage.RequestWatchProgress)
	NewWithT(t).Eventually(delegator.ConsistentReadSupported).Should(BeTrue())
	c := idle(t)
	in := c.reflectorStore
	in.begin(func(error) {})
	for n := range 4 {
		if err := in.Update(podAt(n+1, 101+n)); err != nil {
			t.Fatal(err)
		}
	}
	in.group.expires.Store(true)
	return c, in
}

func podAt(n, revision int) *example.Pod {
	return &example.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprint("pod", n), ResourceVersion: fmt.Sprint(revision)}}
}

// TestDeletionsOfOneRevisionAreOneStep shows that nobody can see, or be told of, a part of a
// revision.
func TestDeletionsOfOneRevisionAreOneStep(t *testing.T) {
	for name, proof := range map[string]func(*reflectorStore) error{
		"the progress":     func(in *reflectorStore) error { return in.Bookmark("105") },
		"a later progress": func(in *reflectorStore) error { return in.Bookmark("109") },
		"a later write":    func(in *reflectorStore) error { return in.Update(podAt(9, 106)) },
		"a later deletion": func(in *reflectorStore) error { return in.Delete(podAt(4, 106)) },
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c, in := expiring(t)
			for n := range 3 {
				g.Expect(in.Delete(podAt(n+1, 105))).To(Succeed())
				g.Expect(c.engine.Snapshot().Len()).To(Equal(4), "after %d deletions", n+1)
				g.Expect(c.engine.Revision()).To(BeEquivalentTo(104))
			}
			g.Expect(proof(in)).To(Succeed())
			state, ok := c.engine.At(105)
			g.Expect(ok).To(BeTrue())
			g.Expect(state.Len()).To(Equal(1))
			position, ok := c.engine.Position(104)
			g.Expect(ok).To(BeTrue())
			next, err := c.engine.ExpiringCursor(position, 8).Poll()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(len(next.Events)).To(BeNumerically(">=", 3), "a watch from 104 gets all of 105")
			for i := range 3 {
				g.Expect(next.Events[i].Item.Revision).To(BeEquivalentTo(105))
			}
		})
	}
}

// TestAWriteAmongDeletionsIsInTheStep is a transaction of somebody who is no API server.
func TestAWriteAmongDeletionsIsInTheStep(t *testing.T) {
	g := NewWithT(t)
	c, in := expiring(t)
	g.Expect(in.Delete(podAt(1, 105))).To(Succeed())
	g.Expect(in.Update(podAt(9, 105))).To(Succeed())
	g.Expect(c.engine.Revision()).To(BeEquivalentTo(104))
	g.Expect(in.Bookmark("105")).To(Succeed())
	g.Expect(c.engine.Revision()).To(BeEquivalentTo(105))
	g.Expect(c.engine.Snapshot().Len()).To(Equal(4))
}

// TestDeletionsOfOneObjectAreNotHeldBack is for the resources whose objects do not expire: they
// must not wait.
func TestDeletionsOfOneObjectAreNotHeldBack(t *testing.T) {
	g := NewWithT(t)
	c, in := expiring(t)
	in.group.expires.Store(false)
	g.Expect(in.Delete(podAt(1, 105))).To(Succeed())
	g.Expect(c.engine.Revision()).To(BeEquivalentTo(105))
	g.Expect(in.Delete(podAt(2, 105))).To(Succeed(), "so there are such revisions here")
	g.Expect(in.group.expires.Load()).To(BeTrue())
	g.Expect(c.engine.Snapshot().Len()).To(Equal(3), "the second one is held back")
	g.Expect(in.Bookmark("105")).To(Succeed())
	g.Expect(c.engine.Snapshot().Len()).To(Equal(2))
}

// TestAnInterruptedRevisionBeginsAnew is a watch of the storage that ends between two events of
// a revision: where it goes on, the rest does not come.
func TestAnInterruptedRevisionBeginsAnew(t *testing.T) {
	g := NewWithT(t)
	_, in := expiring(t)
	g.Expect(in.rewatch()).To(Succeed(), "nothing is held back")
	g.Expect(in.Delete(podAt(1, 105))).To(Succeed())
	g.Expect(in.rewatch()).To(MatchError(errRevisionInterrupted))
	in.begin(func(error) {})
	g.Expect(in.rewatch()).To(Succeed())
}
