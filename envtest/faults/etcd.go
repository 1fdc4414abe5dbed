// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Etcd lets the calls of a client of etcd pass the rules for the fault point Etcd: its transactions and reads, leases, and the beginnings
// of its watches. The client is for one resource, and nobody uses it yet.
func (i *Injector) Etcd(resource schema.GroupResource, client *clientv3.Client) {
	calls := etcdCalls{i, resource}
	client.KV = &etcdKV{client.KV, calls}
	client.Lease = &etcdLease{client.Lease, calls}
	client.Watcher = &etcdWatcher{client.Watcher, calls}
}

// etcdCalls are calls of etcd for a resource.
type etcdCalls struct {
	injector *Injector
	resource schema.GroupResource
}

// pass applies the rules to a call.
func (c etcdCalls) pass(ctx context.Context, verb string) error {
	if len(c.injector.inForce(Etcd)) == 0 {
		return nil
	}
	return c.injector.call(ctx, Etcd, c.injector.callOf(ctx, verb, c.resource))
}

type etcdKV struct {
	clientv3.KV
	calls etcdCalls
}

// Get implements clientv3.KV.
func (k *etcdKV) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if err := k.calls.pass(ctx, verbRange); err != nil {
		return nil, err
	}
	return k.KV.Get(ctx, key, opts...)
}

// Txn implements clientv3.KV.
func (k *etcdKV) Txn(ctx context.Context) clientv3.Txn { return &etcdTxn{k.KV.Txn(ctx), ctx, k.calls} }

type etcdTxn struct {
	clientv3.Txn
	ctx   context.Context // the transaction's context
	calls etcdCalls
}

// If implements clientv3.Txn.
func (t *etcdTxn) If(cs ...clientv3.Cmp) clientv3.Txn {
	t.Txn = t.Txn.If(cs...)
	return t
}

// Then implements clientv3.Txn.
func (t *etcdTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	t.Txn = t.Txn.Then(ops...)
	return t
}

// Else implements clientv3.Txn.
func (t *etcdTxn) Else(ops ...clientv3.Op) clientv3.Txn {
	t.Txn = t.Txn.Else(ops...)
	return t
}

// Commit implements clientv3.Txn.
func (t *etcdTxn) Commit() (*clientv3.TxnResponse, error) {
	if err := t.calls.pass(t.ctx, verbTxn); err != nil {
		return nil, err
	}
	return t.Txn.Commit()
}

type etcdLease struct {
	clientv3.Lease
	calls etcdCalls
}

// Grant implements clientv3.Lease.
func (l *etcdLease) Grant(ctx context.Context, ttl int64) (*clientv3.LeaseGrantResponse, error) {
	if err := l.calls.pass(ctx, verbLease); err != nil {
		return nil, err
	}
	return l.Lease.Grant(ctx, ttl)
}

type etcdWatcher struct {
	clientv3.Watcher
	calls etcdCalls
}

// Watch implements clientv3.Watcher.
func (w *etcdWatcher) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	if err := w.calls.pass(ctx, verbWatch); err != nil {
		out := make(chan clientv3.WatchResponse, 1)
		out <- clientv3.WatchResponse{Header: &pb.ResponseHeader{}, Canceled: true, CancelReason: err.Error()}
		close(out)
		return out
	}
	return w.Watcher.Watch(ctx, key, opts...)
}
