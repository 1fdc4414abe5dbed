// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
)

// progressInterval is how often a watch that wants it, and got nothing meanwhile, learns of the revision. It tells a
// watch cache that it is fresh; etcd's default is ten minutes.
const progressInterval = 5 * time.Second

// watches implements clientv3.Watcher.
type watches struct {
	server  *Server
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	running sync.WaitGroup // Add only with mu held and ctx not ended

	mu   sync.Mutex
	open map[*watch]struct{} // guarded by mu
}

func newWatches(s *Server) *watches {
	w := &watches{server: s, open: map[*watch]struct{}{}}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// watch is one watch of a client.
type watch struct {
	owner  *watches
	stream mvcc.WatchStream // of this watch alone
	id     mvcc.WatchID
	before bool // events carry the value before
	tick   <-chan time.Time
	quiet  bool // nothing was sent since the last tick
	out    chan clientv3.WatchResponse
}

// Watch implements clientv3.Watcher. The options that it knows are those for a range, the revision, the value before and
// progress. A server that is cut off begins the watch when it answers again.
func (w *watches) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	op := clientv3.OpWatch(key, opts...)
	if op.IsFragment() || op.IsCreatedNotify() || op.IsFilterPut() || op.IsFilterDelete() {
		return refused(errors.New("etcd in this process knows no watch with fragments, creation notices or filters"))
	}
	select {
	case <-w.server.outage.answers():
	case <-w.ctx.Done(): // it is refused
	case <-ctx.Done():
		return ended()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx.Err() != nil {
		return refused(errors.New("the client is closed"))
	}
	v := &watch{owner: w, stream: w.server.store.NewWatchStream(), before: op.IsPrevKV(), out: make(chan clientv3.WatchResponse)}
	var err error
	if v.id, err = v.stream.Watch(ctx, clientv3.AutoWatchID, op.KeyBytes(), rangeEnd(op), op.Rev()); err != nil {
		v.stream.Close()
		return refused(err)
	}
	w.open[v] = struct{}{}
	w.server.pace.add(v)
	w.running.Go(func() { v.run(ctx, op.IsProgressNotify()) })
	return v.out
}

// rangeEnd is the end of an operation's range as the store takes it: nil for one key, empty for no end.
func rangeEnd(op clientv3.Op) []byte {
	switch end := op.RangeBytes(); {
	case len(end) == 0:
		return nil
	case len(end) == 1 && end[0] == 0:
		return []byte{}
	default:
		return end
	}
}

// ended returns what a watch sends whose context ended before it was begun.
func ended() clientv3.WatchChan {
	out := make(chan clientv3.WatchResponse)
	close(out)
	return out
}

// refused returns what a watch sends that was not begun.
func refused(err error) clientv3.WatchChan {
	out := make(chan clientv3.WatchResponse, 1)
	out <- clientv3.WatchResponse{Header: &pb.ResponseHeader{}, Canceled: true, CancelReason: err.Error()}
	close(out)
	return out
}

// RequestProgress implements clientv3.Watcher: each watch that has got all events is told of the revision.
func (w *watches) RequestProgress(context.Context) error {
	if err := w.server.Available(); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for v := range w.open {
		v.stream.RequestProgress(v.id)
	}
	return nil
}

// Close implements clientv3.Watcher.
func (w *watches) Close() error {
	w.mu.Lock()
	w.cancel()
	w.mu.Unlock()
	w.running.Wait()
	return nil
}

// end closes a watch.
func (w *watches) end(v *watch) {
	w.mu.Lock()
	delete(w.open, v)
	w.mu.Unlock()
	w.server.pace.remove(v)
	v.stream.Close()
	close(v.out)
}

// run sends what the store has for the watch, until ctx ends, the client is closed, the server has failed, or the events
// were compacted.
func (v *watch) run(ctx context.Context, progress bool) {
	defer v.owner.end(v)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(v.owner.ctx, cancel)()
	if progress {
		ticker := time.NewTicker(progressInterval)
		defer ticker.Stop()
		v.tick = ticker.C
	}
	for {
		response, ok := v.next(ctx)
		if !ok {
			return
		}
		select {
		case v.out <- response:
		case <-ctx.Done():
			return
		}
		if response.Canceled {
			return
		}
	}
}

// next waits for the next response of the watch, or returns false when ctx ends.
func (v *watch) next(ctx context.Context) (clientv3.WatchResponse, bool) {
	failure := v.owner.server.failure
	for {
		select {
		case answer := <-v.stream.Chan():
			v.owner.server.pace.took()
			mvcc.ReportEventReceived(len(answer.Events))
			v.quiet = v.quiet && len(answer.Events) == 0
			if err := v.owner.server.visible(); err != nil {
				return failed(err), true
			}
			response, err := v.response(answer)
			if err != nil {
				return failed(err), true
			}
			return response, true
		case <-v.tick:
			if v.quiet && v.owner.server.outage.err() == nil {
				v.stream.RequestProgress(v.id) // answered by the stream, in the order of the events
			}
			v.quiet = true
		case <-failure.done:
			return failed(failure.get()), true
		case <-ctx.Done():
			return clientv3.WatchResponse{}, false
		}
	}
}

// failed is the last response of a watch on a server that has failed.
func failed(err error) clientv3.WatchResponse {
	return clientv3.WatchResponse{Header: &pb.ResponseHeader{}, Canceled: true, CancelReason: err.Error()}
}

// response makes a client's response of the store's.
func (v *watch) response(answer mvcc.WatchResponse) (response clientv3.WatchResponse, err error) {
	defer v.owner.server.failure.rescue(&err)
	response = clientv3.WatchResponse{
		Header:          &pb.ResponseHeader{Revision: answer.Revision},
		CompactRevision: answer.CompactRevision,
		Canceled:        answer.CompactRevision != 0,
		Events:          make([]*clientv3.Event, 0, len(answer.Events)),
	}
	for _, event := range answer.Events {
		e := &clientv3.Event{Type: event.Type, Kv: event.Kv} // the store's event is shared with other watches
		if v.before && !e.IsCreate() {
			e.PrevKv = v.valueBefore(event.Kv)
		}
		response.Events = append(response.Events, e)
	}
	return response, nil
}

// valueBefore returns what kv has replaced or deleted. It is nil if that was compacted.
func (v *watch) valueBefore(kv *mvccpb.KeyValue) *mvccpb.KeyValue {
	found, err := v.owner.server.store.Range(context.Background(), kv.Key, nil, mvcc.RangeOptions{Rev: kv.ModRevision - 1})
	if err != nil || len(found.KVs) == 0 {
		return nil
	}
	return found.KVs[0]
}
