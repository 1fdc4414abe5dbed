// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/server/v3/etcdserver/txn"
	"go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"google.golang.org/protobuf/proto"
)

// maxRequestBytes is etcd's default limit of a write.
const maxRequestBytes = 3 << 19

// keyValues implements pb.KVServer.
type keyValues struct {
	pb.UnimplementedKVServer
	*Server
}

// Range implements pb.KVServer. Writes are done when they return, so that every read sees them.
func (s *keyValues) Range(ctx context.Context, r *pb.RangeRequest) (resp *pb.RangeResponse, err error) {
	defer s.failure.rescue(&err)
	if err := s.Available(); err != nil {
		return nil, err
	}
	resp, _, err = txn.Range(ctx, s.failure.log, s.store, r, true)
	return resp, wireError(err)
}

// Txn implements pb.KVServer.
func (s *keyValues) Txn(ctx context.Context, r *pb.TxnRequest) (resp *pb.TxnResponse, err error) {
	defer s.failure.rescue(&err)
	size := proto.Size(r)
	if size > maxRequestBytes {
		return nil, rpctypes.ErrGRPCRequestTooLarge
	}
	s.begin()
	defer s.done()
	if err := s.outage.err(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := s.outlived(ctx); err != nil {
		return nil, err
	}
	if err := s.makeRoom(size); err != nil {
		return nil, err
	}
	s.history.wrote(size)
	s.inTxn = true
	// A transaction that has begun to write must not be cancelled.
	resp, _, err = txn.Txn(context.WithoutCancel(ctx), s.failure.log, r, true, s.store, s.lessor, false)
	s.inTxn = false
	return resp, wireError(err)
}

// wireErrors are the errors of etcd's parts that clients know under another name.
var wireErrors = map[error]error{
	mvcc.ErrCompacted:         rpctypes.ErrGRPCCompacted,
	mvcc.ErrFutureRev:         rpctypes.ErrGRPCFutureRev,
	lease.ErrLeaseNotFound:    rpctypes.ErrGRPCLeaseNotFound,
	lease.ErrLeaseExists:      rpctypes.ErrGRPCLeaseExist,
	lease.ErrLeaseTTLTooLarge: rpctypes.ErrGRPCLeaseTTLTooLarge,
}

// wireError is the error that a server sends to its clients for err.
func wireError(err error) error {
	for ours, theirs := range wireErrors {
		if errors.Is(err, ours) {
			return theirs
		}
	}
	return err
}
