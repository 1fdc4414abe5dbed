// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/lease"
)

// leaseBytes is far more than what the database keeps of a lease.
const leaseBytes = 128

// leases implements pb.LeaseServer.
type leases struct {
	pb.UnimplementedLeaseServer
	*Server
}

// LeaseGrant implements pb.LeaseServer.
func (s *leases) LeaseGrant(ctx context.Context, r *pb.LeaseGrantRequest) (resp *pb.LeaseGrantResponse, err error) {
	defer s.failure.rescue(&err)
	s.begin()
	defer s.done()
	if err := s.outage.err(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := s.makeRoom(leaseBytes); err != nil {
		return nil, err
	}
	id := r.ID
	if id == 0 {
		s.lastLease++
		id = s.lastLease
	}
	granted, err := s.lessor.Grant(lease.LeaseID(id), r.TTL)
	if err != nil {
		return nil, wireError(err)
	}
	return &pb.LeaseGrantResponse{
		Header: &pb.ResponseHeader{Revision: s.store.Rev()}, ID: int64(granted.ID), TTL: granted.TTL(),
	}, nil
}

// revokeExpired deletes what belongs to leases that have expired, until the server stops.
func (s *Server) revokeExpired() {
	for {
		select {
		case expired := <-s.lessor.ExpiredLeasesC():
			for _, l := range expired {
				_ = s.revoke(l) // the lessor names it again in three seconds
			}
		case <-s.quit:
			return
		}
	}
}

// revoke deletes a lease and its keys, in one revision.
func (s *Server) revoke(l *lease.Lease) (err error) {
	defer s.failure.rescue(&err)
	s.begin()
	defer s.done()
	if err := s.outage.err(); err != nil {
		return err
	}
	size := leaseBytes
	for _, key := range l.Keys() {
		size += len(key) + leaseBytes
	}
	if err := s.makeRoom(size); err != nil {
		return err
	}
	s.history.wrote(size)
	s.inTxn = true
	err = s.lessor.Revoke(l.ID)
	s.inTxn = false
	return err
}
