// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/lease"
)

// TestLeasesOutliveAPause has a lease that does not expire while the server is cut off, and has its TTL again afterwards, when leases expire.
func TestLeasesOutliveAPause(t *testing.T) {
	s, client := started(t)
	const ttl = 600
	granted, err := client.Lease.Grant(t.Context(), ttl)
	if err != nil {
		t.Fatal(err)
	}
	kept := s.lessor.Lookup(lease.LeaseID(granted.ID))
	s.Pause()
	if left := kept.Remaining().Hours(); left < 1 {
		t.Errorf("while the server is cut off, the lease ends in %f hours", left)
	}
	s.Resume()
	if left := kept.Remaining().Seconds(); left > ttl {
		t.Errorf("afterwards the lease has %f s, more than its TTL of %d s", left, ttl)
	}

	short, err := client.Lease.Grant(t.Context(), 5)
	if err != nil {
		t.Fatal(err)
	}
	watched := client.Watch(t.Context(), "/a")
	put := clientv3.OpPut("/a", "value", clientv3.WithLease(short.ID))
	if _, err := client.KV.Txn(t.Context()).Then(put).Commit(); err != nil {
		t.Fatal(err)
	}
	for {
		got := <-watched
		if len(got.Events) == 0 {
			t.Fatalf("the watch got %v", got.Err())
		}
		if got.Events[0].Type == clientv3.EventTypeDelete {
			return
		}
	}
}
