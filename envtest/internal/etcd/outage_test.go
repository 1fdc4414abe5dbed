// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestPause cuts a server off: nothing is answered, nothing is lost, and watches go on.
func TestPause(t *testing.T) {
	s, client := started(t)
	put := func(key string) error {
		_, err := client.KV.Txn(t.Context()).Then(clientv3.OpPut(key, "value")).Commit()
		return err
	}
	if err := put("/a"); err != nil {
		t.Fatal(err)
	}
	before := client.Watch(t.Context(), "/", clientv3.WithPrefix())
	s.Pause()
	s.Pause() // twice is once
	_, readErr := client.KV.Get(t.Context(), "/a")
	_, leaseErr := client.Lease.Grant(t.Context(), 60)
	for what, err := range map[string]error{
		"a write": put("/b"), "a read": readErr, "a lease": leaseErr, "a compaction": s.CompactTo(t.Context(), 0),
		"a request for progress": client.RequestProgress(t.Context()), "the health check": s.Available(),
	} {
		if status.Code(err) != codes.Unavailable {
			t.Errorf("%s: %v", what, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, ok := <-client.Watch(ended, "/"); ok {
		t.Error("a watch whose context has ended has begun")
	}
	s.Resume()
	s.Resume()
	if err := put("/c"); err != nil {
		t.Fatal(err)
	}
	if got := <-before; len(got.Events) != 1 || string(got.Events[0].Kv.Key) != "/c" {
		t.Errorf("the watch got %v", got)
	}
	if got, err := client.KV.Get(t.Context(), "/a"); err != nil || len(got.Kvs) != 1 {
		t.Errorf("what was stored is gone: %v, %v", got, err)
	}
	if err := s.CompactTo(t.Context(), 0); err != nil {
		t.Error(err)
	}
}
