// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"os"
	"runtime"
	"testing"

	. "github.com/onsi/gomega"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// started returns a server and a client of it, which end with the test.
func started(t testing.TB) (*Server, *kubernetes.Client) {
	t.Helper()
	s, err := Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	client := s.Client()
	t.Cleanup(func() {
		CloseClient(client)
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s, client
}

// put writes a key and returns the revision.
func put(t testing.TB, client *kubernetes.Client, key, value string) int64 {
	t.Helper()
	response, err := client.KV.Txn(t.Context()).Then(clientv3.OpPut(key, value)).Commit()
	if err != nil {
		t.Fatal(err)
	}
	return response.Header.Revision
}

func TestStopLeavesNothing(t *testing.T) {
	g, before, parent := NewWithT(t), goleak.IgnoreCurrent(), t.TempDir()
	s, err := Start(parent)
	g.Expect(err).NotTo(HaveOccurred())
	client := s.Client()
	put(t, client, "key", "value")
	watch := client.Watch(t.Context(), "key")
	CloseClient(client)
	g.Expect(watch).To(BeClosed())
	g.Expect(s.Stop()).To(Succeed())
	g.Expect(os.ReadDir(parent)).To(BeEmpty())
	g.Expect(goleak.Find(before)).To(Succeed())
}

func TestEachServerHasItsOwnKeys(t *testing.T) {
	g := NewWithT(t)
	_, one := started(t)
	_, other := started(t)
	put(t, one, "key", "value")
	response, err := other.KV.Get(t.Context(), "key")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(response.Kvs).To(BeEmpty())
}

// TestMethodsThatAreNotServedSaySo calls what k8s.io/apiserver does not.
func TestMethodsThatAreNotServedSaySo(t *testing.T) {
	g := NewWithT(t)
	_, client := started(t)
	_, err := client.KV.Put(t.Context(), "key", "value")
	g.Expect(status.Code(err)).To(Equal(codes.Unimplemented))
	_, err = client.Lease.Revoke(t.Context(), 1)
	g.Expect(status.Code(err)).To(Equal(codes.Unimplemented))
	for _, option := range []clientv3.OpOption{
		clientv3.WithFragment(), clientv3.WithCreatedNotify(), clientv3.WithFilterPut(), clientv3.WithFilterDelete(),
	} {
		response := <-client.Watch(t.Context(), "key", option)
		g.Expect(response.Err()).To(MatchError(ContainSubstring("knows no watch")))
	}
}

// TestAWriteIsNotCancelledHalfWay cancels a transaction whose comparison reads for it.
func TestAWriteIsNotCancelledHalfWay(t *testing.T) {
	g := NewWithT(t)
	s, client := started(t)
	put(t, client, "key", "1")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := client.KV.Txn(cancelled).If(clientv3.Compare(clientv3.ModRevision("key"), "=", 1)).
		Then(clientv3.OpPut("key", "2")).Else(clientv3.OpGet("key")).Commit()
	g.Expect(err).To(MatchError(context.Canceled))
	g.Expect(s.Failed()).NotTo(HaveOccurred())

	// A context that ends when the server has looked at it.
	service := &keyValues{Server: s}
	_, err = service.Txn(endsLater{t.Context(), new(int)}, &pb.TxnRequest{Failure: []*pb.RequestOp{
		{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: []byte("key")}}},
		{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte("key"), Value: []byte("3")}}},
	}, Compare: []*pb.Compare{{Key: []byte("none"), Target: pb.Compare_VERSION, Result: pb.Compare_GREATER}}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.Failed()).NotTo(HaveOccurred())
	response, err := client.KV.Get(t.Context(), "key")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(response.Kvs[0].Value)).To(Equal("3"))
}

// endsLater is a context that has ended when it is asked a second time.
type endsLater struct {
	context.Context
	asked *int
}

// Err implements context.Context.
func (c endsLater) Err() error {
	if *c.asked++; *c.asked > 1 {
		return context.Canceled
	}
	return nil
}

// Done implements context.Context.
func (c endsLater) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

// heapInUse is what is alive on the heap, in bytes.
func heapInUse() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
