// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func now() time.Time { return time.Now() }

// inWorld runs a test in virtual time with replicas that work on a number of keys.
func inWorld(t *testing.T, keys int, f func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, rand.New(rand.NewPCG(1, 2)), keys)
		f(t, w)
		w.close()
	})
}

func (w *world) startOne(name string) *replica {
	return w.start(name, 1, &link{delay: 10 * time.Millisecond})
}

// TestMovedKeys starts five replicas, ends one by a crash and one in order, and adds two: keys move as often as they must.
func TestMovedKeys(t *testing.T) {
	inWorld(t, 200, func(t *testing.T, w *world) {
		var members []string
		must, before := 0, map[string]string{}
		settled := func(most time.Duration, names ...string) {
			time.Sleep(joining)
			took := w.settle(most)
			time.Sleep(5 * time.Second) // each replica has worked on each of its keys
			members = members[:0]
			for _, name := range names {
				members = append(members, "shop-"+name)
			}
			after := ownersOf(len(w.keys), members...)
			for key, owner := range after {
				if before[key] != "" && before[key] != owner {
					must++
				}
			}
			before = after
			t.Logf("%v after %s: %d moves, want %d", names, took, w.moves(), must)
		}
		all := map[string]*replica{}
		for i := range 5 {
			all[fmt.Sprintf("m%d", i)] = w.startOne(fmt.Sprintf("m%d", i))
		}
		settled(time.Second, "m0", "m1", "m2", "m3", "m4")
		if moved := w.moves(); moved > 0 {
			t.Errorf("%d keys moved among replicas that start together", moved)
		}
		w.crash(all["m2"])
		time.Sleep(time.Second)
		settled(17*time.Second, "m0", "m1", "m3", "m4")
		w.startOne("m5")
		settled(5*time.Second, "m0", "m1", "m3", "m4", "m5")
		w.startOne("m6")
		settled(5*time.Second, "m0", "m1", "m3", "m4", "m5", "m6")
		all["m0"].stop()
		settled(3*time.Second, "m1", "m3", "m4", "m5", "m6")
		if moved := w.moves(); float64(moved) > 1.3*float64(must) || must == 0 {
			t.Errorf("%d keys moved, %d had to", moved, must)
		}
	})
}

func (w *world) moves() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.moved
}

// ownedBy returns a key that a replica has to own.
func ownedBy(t *testing.T, r *replica) string {
	for i := range 1000 {
		if key := fmt.Sprintf("key-%d", i); r.ring.Owner(key) == r.name {
			return key
		}
	}
	t.Fatalf("%s owns no key", r)
	return ""
}

func mustHold(t *testing.T, r *replica, key string) (context.Context, func()) {
	t.Helper()
	held, release, err := r.ring.Hold(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return held, release
}

// TestAKeyMovesWhenItsWorkHasEnded: work goes on and may write while its key leaves, others wait for it alone, and it is cancelled after
// the timeout.
func TestAKeyMovesWhenItsWorkHasEnded(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		a := w.startOne("a")
		time.Sleep(joining)
		busy, idle, n := "", "", 0
		for i := 0; n < 2; i++ { // keys that b takes
			key := fmt.Sprintf("key-%d", i)
			if ownersBetween(key, "shop-a", "shop-b") == "shop-b" {
				busy, idle, n = idle, key, n+1
			}
		}
		held, release := mustHold(t, a, busy)
		_, second := mustHold(t, a, busy)
		b := w.startOne("b")
		time.Sleep(joining)
		mustFail(t, a, idle, "it is for member b")
		_, done := mustHold(t, b, idle)
		done()
		mustFail(t, b, busy, "another member has not given it up yet")
		if err := a.ring.Check(busy); err != nil || held.Err() != nil {
			t.Errorf("work under way is stopped: %v", err)
		}
		second()
		second()
		time.Sleep(10 * time.Second)
		if wrong := (*NotOwnedError)(nil); !errors.As(context.Cause(held), &wrong) || wrong.Owner != "b" {
			t.Errorf("after the timeout, the context has %v", context.Cause(held))
		}
		if a.ring.Check(busy) == nil {
			t.Error("cancelled work may write")
		}
		mustFail(t, b, busy, "another member has not given it up yet")
		release()
		time.Sleep(time.Second)
		_, done = mustHold(t, b, busy)
		done()
	})
}

func ownersBetween(key string, names ...string) string {
	var best *member
	for _, name := range names {
		if m := (&member{name: name, hash: hashOf(name)}); best == nil || beats(m, best, hashOf(key)) {
			best = m
		}
	}
	return best.name
}

func mustFail(t *testing.T, r *replica, key, text string) {
	t.Helper()
	_, _, err := r.ring.Hold(t.Context(), key)
	if wrong := (*NotOwnedError)(nil); !errors.As(err, &wrong) || !strings.Contains(err.Error(), text) {
		t.Errorf("Hold of %s by %s returns %v, want %q", key, r, err, text)
	}
	if err := r.ring.Check(key); err == nil {
		t.Errorf("%s may write for %s", r, key)
	}
}

// TestAReplicaThatCannotRenewStops at its deadline, by the time of its last renewal, and goes on with what it had when the server is back.
func TestAReplicaThatCannotRenewStops(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		a := w.startOne("a")
		time.Sleep(joining)
		holder := a.ring.Members()["a"]
		held, release := mustHold(t, a, "key")
		a.link.setCut(true)
		time.Sleep(8 * time.Second)
		if held.Err() != nil || a.ring.Check("key") != nil {
			t.Fatal("the work is stopped too early")
		}
		time.Sleep(3 * time.Second)
		mustFail(t, a, "key", "could not be renewed in time")
		if held.Err() == nil {
			t.Error("the work is not stopped")
		}
		release()
		a.link.setCut(false)
		time.Sleep(10 * time.Second)
		_, release = mustHold(t, a, "key")
		release()
		if now := a.ring.Members()["a"]; now != holder {
			t.Errorf("the holder was %s, and is %s", holder, now)
		}
	})
}

// TestADeletedLeaseIsAGhost: its member stops at once, nobody takes its keys or lets a newcomer in for LeaseDuration.
func TestADeletedLeaseIsAGhost(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		a, b := w.startOne("a"), w.startOne("b")
		time.Sleep(joining)
		key := ownedBy(t, a)
		held, release := mustHold(t, a, key)
		a.link.setCut(true) // it cannot know
		if err := w.server.delete("shop-a", nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		c := w.startOne("c")
		for range 5 {
			time.Sleep(time.Second)
			mustFail(t, b, key, "")
			mustFail(t, c, key, "")
			if held.Err() != nil || a.ring.Check(key) != nil {
				t.Fatal("a has stopped")
			}
		}
		release()
		time.Sleep(11 * time.Second)
		if b.ring.Check(key) == nil == (c.ring.Check(key) == nil) {
			t.Error("not one member has the key of the ghost")
		}
		a.link.setCut(false)
		w.settle(20 * time.Second)
	})
}

// TestAMemberThatJoinsKnowsWhoWasDeletedMeanwhile: it has listed the members, and does not work yet.
func TestAMemberThatJoinsKnowsWhoWasDeletedMeanwhile(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		a := w.startOne("a")
		time.Sleep(joining)
		_, release := mustHold(t, a, "key")
		b := w.startOne("b")
		time.Sleep(time.Second)
		mustFail(t, b, "key", "it waits for members that start with it")
		a.link.setCut(true)
		if err := w.server.delete("shop-a", nil); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			time.Sleep(time.Second)
			if mustFail(t, b, "key", ""); a.ring.Check("key") != nil {
				t.Fatal("a has stopped")
			}
		}
		release()
		time.Sleep(11 * time.Second)
		if err := b.ring.Check("key"); err != nil {
			t.Error(err)
		}
		a.link.setCut(false)
	})
}

// TestReplicasThatStartTogether, one a second after the other: the first one has no key of the second one before that works.
func TestReplicasThatStartTogether(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		a := w.startOne("a")
		time.Sleep(time.Second)
		b, owners := w.startOne("b"), map[string]int{}
		for range 100 {
			time.Sleep(50 * time.Millisecond)
			for i := range 40 {
				key := fmt.Sprintf("key-%d", i)
				owner := ownersBetween(key, "shop-a", "shop-b")
				if (a.ring.Term(key) > 0 && owner != "shop-a") || (b.ring.Term(key) > 0 && owner != "shop-b") {
					t.Fatalf("after %s another one than %s has a term of %s", time.Since(w.begun), owner, key)
				}
				if a.ring.Check(key) == nil || b.ring.Check(key) == nil {
					owners[owner]++
				}
			}
		}
		if len(owners) != 2 {
			t.Errorf("keys were worked on by %v", owners)
		}
	})
}

// TestAKeyStaysUntilTheNextOwnerCanWork: b waits for c, which has its Lease, and crashes before it joins.
func TestAKeyStaysUntilTheNextOwnerCanWork(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		a := w.startOne("a")
		time.Sleep(joining)
		b, key := w.startOne("b"), ""
		for i := 0; key == "" || ownersBetween(key, "shop-a", "shop-b", "shop-c") != "shop-b"; i++ {
			key = fmt.Sprintf("key-%d", i)
		}
		time.Sleep(time.Second)
		c := w.startOne("c")
		time.Sleep(time.Second)
		w.crash(c)
		for range 10 {
			time.Sleep(time.Second)
			mustFail(t, b, key, "another member has not given it up yet")
			_, release := mustHold(t, a, key)
			release()
		}
		time.Sleep(8 * time.Second)
		_, release := mustHold(t, b, key)
		release()
	})
}

// TestAMemberThatJoinsAgainKnowsTheOthers: all Leases are deleted while one of the members is cut off, and works on until its deadline.
func TestAMemberThatJoinsAgainKnowsTheOthers(t *testing.T) {
	inWorld(t, 20, func(t *testing.T, w *world) {
		w.startOne("a")
		b := w.startOne("b")
		w.settle(settleTime)
		b.link.setCut(true)
		for _, name := range []string{"shop-a", "shop-b"} {
			if err := w.server.delete(name, nil); err != nil {
				t.Fatal(err)
			}
		}
		for range 200 {
			time.Sleep(50 * time.Millisecond)
			w.checkOne()
		}
		b.link.setCut(false)
		w.settle(settleTime)
		w.startOne("c")
		w.settle(settleTime)
	})
}

// TestAGhostEnds, also if its Lease comes back: once it had been taken by a request whose answer was lost, once somebody replaced it.
func TestAGhostEnds(t *testing.T) {
	inWorld(t, 20, func(t *testing.T, w *world) {
		w.startOne("a")
		time.Sleep(joining)
		w.server.setCalm(true)
		w.start("b", 1, &link{delay: time.Second, lost: 2})
		for w.server.delete("shop-b", nil) != nil {
			time.Sleep(time.Millisecond)
		}
		w.server.setCalm(false) // the answer is still under way
		time.Sleep(time.Second)
		w.server.setCalm(true)
		time.Sleep(17 * time.Second) // it has joined
		w.settle(settleTime)

		w.startOne("c")
		time.Sleep(joining)
		replaced, err := w.server.get("shop-c")
		if err != nil {
			t.Fatal(err)
		}
		_ = w.server.delete("shop-c", nil)
		_, _ = w.server.create(replaced)
		time.Sleep(20 * time.Second) // it has joined
		w.settle(settleTime)
		w.startOne("d")
		time.Sleep(joining)
		w.settle(settleTime)
	})
}

// TestASecondProcessWaitsForTheName until the first has left.
func TestASecondProcessWaitsForTheName(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		first := w.startOne("a")
		time.Sleep(time.Second) // it has the Lease
		second := w.startOne("a")
		time.Sleep(time.Minute)
		mustFail(t, second, "key", "it has no Lease yet")
		if members := second.ring.Members(); len(members) > 0 {
			t.Errorf("members %v", members)
		}
		first.stop()
		time.Sleep(10 * time.Second)
		_, release := mustHold(t, second, "key")
		release()
	})
}

// TestLeavesWhenWorkHasEnded: the others get each key when its work has ended; Start returns when all has, and no Lease is left.
func TestLeavesWhenWorkHasEnded(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		a, b := w.startOne("a"), w.startOne("b")
		time.Sleep(joining)
		key, free := ownedBy(t, a), ""
		for i := 0; free == "" || free == key; i++ {
			if other := fmt.Sprintf("key-%d", i); a.ring.Owner(other) == "a" {
				free = other
			}
		}
		_, release := mustHold(t, a, key)
		a.stop()
		time.Sleep(time.Second)
		mustFail(t, a, free, "it is leaving")
		mustFail(t, b, key, "another member has not given it up yet")
		_, done := mustHold(t, b, free)
		done()
		release()
		time.Sleep(time.Second)
		_, done = mustHold(t, b, key)
		done()
		if _, err := w.server.get("shop-a"); err == nil || len(w.replicas()) != 1 {
			t.Error("the Lease is left, or Start has not returned")
		}
	})
}

// TestStartReturnsWhenWorkDoesNotEnd with an error, and leaves the Lease to expire.
func TestStartReturnsWhenWorkDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		server := newFakeServer(ctx, rand.New(rand.NewPCG(1, 2)))
		ring, err := New(Options{Ring: "shop", Member: "a", Namespace: "default", Client: &link{server: server}})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- ring.Start(ctx) }()
		time.Sleep(joining)
		held, release, err := ring.Hold(t.Context(), "key")
		if err != nil {
			t.Fatal(err)
		}
		end()
		<-held.Done()
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "work on 1 keys") {
			t.Errorf("Start returns %v", err)
		}
		release()
		if l, err := server.get("shop-a"); err != nil || l.Spec.HolderIdentity == nil {
			t.Errorf("the Lease is %v, %v", l, err)
		}
	})
}

// TestALeaseOfSomethingElseIsLeftAlone.
func TestALeaseOfSomethingElseIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer(t.Context(), rand.New(rand.NewPCG(1, 2)))
		if _, err := server.create(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shop-a"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("x")}}); err != nil {
			t.Fatal(err)
		}
		ring, err := New(Options{Ring: "shop", Member: "a", Namespace: "default", Client: &link{server: server}})
		if err != nil {
			t.Fatal(err)
		}
		if err := ring.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "is not one of ring shop") {
			t.Errorf("Start returns %v", err)
		}
		if lease, err := server.get("shop-a"); err != nil || *lease.Spec.HolderIdentity != "x" {
			t.Errorf("the Lease has become %v, %v", lease, err)
		}
	})
}

// TestOptionsAreChecked.
func TestOptionsAreChecked(t *testing.T) {
	for want, o := range map[string]Options{
		"Client and Namespace are required": {Ring: "shop"},
		"Ring is required":                  {Client: &link{}, Namespace: "default"},
		`Ring "a b"`:                        {Ring: "a b", Client: &link{}, Namespace: "default"},
		`Key "metadata.name"`:               {Ring: "shop", Key: "metadata.name", Client: &link{}, Namespace: "default"},
		`Key "metadata.labels['a b']"`:      {Ring: "shop", Key: "metadata.labels['a b']", Client: &link{}, Namespace: "default"},
		`Key "metadata.labels['a"`:          {Ring: "shop", Key: "metadata.labels['a", Client: &link{}, Namespace: "default"},
		"the Lease cannot be called":        {Ring: "shop", Member: "A_", Client: &link{}, Namespace: "default"},
		"must be longer than RenewDeadline": {Ring: "shop", Client: &link{}, Namespace: "default", LeaseDuration: time.Second},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New returns %v, want %q", err, want)
		}
	}
}
