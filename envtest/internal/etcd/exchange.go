// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"
	"iter"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/pkg/v3/traceutil"
	"go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
)

// exchangePage is how many keys are read at a time, so that a large state is not in memory as a whole.
const exchangePage = 500

// Entry is a key with its value.
type Entry struct {
	Key   string
	Value []byte // not to be changed
	TTL   int64  // seconds until it expires, with all others of the same lease; zero if it does not
}

// Write is a change of a key. Exchange sets Revision.
type Write struct {
	Entry    // a nil value deletes the key
	Revision int64
	lease    lease.LeaseID
}

// Read walks over the keys with a prefix, in their order, as they were at one revision. It ends with an error when that
// revision was compacted meanwhile, or ctx ended.
func (s *Server) Read(ctx context.Context, prefix string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if err := s.visible(); err != nil {
			yield(Entry{}, err)
			return
		}
		s.walk(ctx, prefix, s.store.Rev(), yield)
	}
}

// walk reads page by page.
func (s *Server) walk(ctx context.Context, prefix string, revision int64, yield func(Entry, error) bool) {
	from, end := []byte(prefix), []byte(clientv3.GetPrefixRangeEnd(prefix))
	for {
		page, err := s.page(ctx, from, end, revision)
		if err != nil {
			yield(Entry{}, fmt.Errorf("read the keys with prefix %s: %w", prefix, err))
			return
		}
		for _, kv := range page {
			if !yield(s.entry(kv), nil) {
				return
			}
		}
		if len(page) < exchangePage {
			return
		}
		from = append(page[len(page)-1].Key, 0)
	}
}

func (s *Server) page(ctx context.Context, from, end []byte, revision int64) (_ []*mvccpb.KeyValue, err error) {
	defer s.failure.rescue(&err)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	found, err := s.store.Range(ctx, from, end, mvcc.RangeOptions{Limit: exchangePage, Rev: revision})
	if err != nil {
		return nil, wireError(err)
	}
	return found.KVs, nil
}

func (s *Server) entry(kv *mvccpb.KeyValue) Entry {
	e := Entry{Key: string(kv.Key), Value: kv.Value}
	if kv.Lease != 0 {
		e.TTL = 1 // has expired, and will be gone
		if l := s.lessor.Lookup(lease.LeaseID(kv.Lease)); l != nil {
			e.TTL = max(e.TTL, int64(l.Remaining().Seconds()))
		}
	}
	return e
}

// Exchange changes many keys in one step: nobody else writes between what plan is shown, which are the keys with the prefix,
// and the last of the writes that it returns. Each write gets a revision of its own, in their order, and each watch sees it.
// Afterwards the writes of all contexts that Request made before are refused. If there is no room for all, or plan returns
// an error, nothing is written.
//
// plan must not call the server, and ctx has no effect once it has returned.
func (s *Server) Exchange(ctx context.Context, prefix string, plan func(iter.Seq2[Entry, error]) ([]Write, error)) (_ []Write, err error) {
	defer s.failure.rescue(&err)
	done := 0
	s.whole.Lock()
	defer s.whole.Unlock()
	if err := s.outage.err(); err != nil {
		return nil, err
	}
	writes, err := plan(func(yield func(Entry, error) bool) { s.walk(ctx, prefix, s.store.Rev(), yield) })
	if err != nil {
		return nil, err
	}
	if err := s.prepare(writes); err != nil {
		return nil, err
	}
	slow := map[*watch]bool{}
	for len(writes[done:]) > 0 {
		n := min(paceWrites, len(writes)-done)
		if err := s.apply(writes[done : done+n]); err != nil {
			return nil, err
		}
		done += n
		s.pace.wait(slow)
	}
	return writes, nil
}

// prepare reserves the room for all of the writes, and refuses those of requests that began before. Writes with the same TTL
// share a lease.
func (s *Server) prepare(writes []Write) error {
	s.write.Lock()
	defer s.write.Unlock()
	size := 0
	for i := range writes {
		size += len(writes[i].Key) + len(writes[i].Value) + leaseBytes + revisionBytes
	}
	if err := s.makeRoom(size); err != nil {
		return err
	}
	granted := map[int64]lease.LeaseID{}
	for i := range writes {
		w := &writes[i]
		if _, ok := granted[w.TTL]; !ok && w.TTL > 0 {
			s.lastLease++
			l, err := s.lessor.Grant(lease.LeaseID(s.lastLease), w.TTL)
			if err != nil {
				return fmt.Errorf("grant a lease for %s: %w", w.Key, wireError(err))
			}
			granted[w.TTL] = l.ID
		}
		w.lease = granted[w.TTL]
	}
	s.epoch.Add(1)
	return nil
}

// apply makes writes.
func (s *Server) apply(writes []Write) error {
	s.write.Lock()
	defer s.write.Unlock()
	if err := s.failure.get(); err != nil {
		return err
	}
	s.inTxn = true
	for i := range writes {
		w := &writes[i]
		s.history.wrote(len(w.Key) + len(w.Value))
		txn := s.store.Write(traceutil.TODO())
		if w.Value == nil {
			_, w.Revision = txn.DeleteRange([]byte(w.Key), nil)
		} else {
			w.Revision = txn.Put([]byte(w.Key), w.Value, w.lease)
		}
		txn.End()
	}
	s.inTxn = false
	return nil
}

// requestKey is the key of what Request puts into a context.
type requestKey struct{ of *Server }

// request says when a request began.
type request struct {
	epoch   uint64
	refused error
}

// Request returns a context for a request that writes by what it has read or decided. If Exchange changes the keys
// meanwhile, its writes fail with the error refused. The number counts the calls of Exchange before.
func (s *Server) Request(ctx context.Context, refused error) (context.Context, uint64) {
	epoch := s.epoch.Load()
	return context.WithValue(ctx, requestKey{s}, request{epoch, refused}), epoch
}

// outlived returns the error of a request that began before the last Exchange. Server.write is held.
func (s *Server) outlived(ctx context.Context) error {
	if r, ok := ctx.Value(requestKey{s}).(request); ok && r.epoch != s.epoch.Load() {
		return r.refused
	}
	return nil
}
