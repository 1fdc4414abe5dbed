// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/etcd/server/v3/proxy/grpcproxy/adapter"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
)

const (
	// databaseName is the file of the database in the server's folder.
	databaseName = "db"

	// never is longer than a process lives. The backend's timer would commit what few writes there are, for durability
	// that nobody needs; commits happen when makeRoom wants them.
	never = 100 * 365 * 24 * time.Hour

	// compactionBatch is how many keys a compaction looks at in one transaction of the database.
	compactionBatch = 64

	// compactionPause is between two of these. Zero would mean etcd's default of ten milliseconds.
	compactionPause = time.Microsecond

	// minLeaseTTL is etcd's for short election timeouts.
	minLeaseTTL = 1 // second
)

// Server is one etcd. Make one with Start. See the package for its concurrency.
type Server struct {
	folder  *folder
	backend backend.Backend
	lessor  lease.Lessor
	store   mvcc.WatchableKV
	failure *failure
	history *history
	outage  *outage

	writing
	pace *pace

	quit  chan struct{} // closed by Stop
	tasks sync.WaitGroup
}

// writing is what writes share.
type writing struct {
	whole     sync.RWMutex  // held by Exchange for all of its writes, and shared by other writes; locked before write
	write     sync.RWMutex  // held to write, and for a moment to wait for the end of a write
	room      *room         // guarded by write
	inTxn     bool          // guarded by write; stays true when a transaction was broken off half-way
	lastLease int64         // guarded by write
	epoch     atomic.Uint64 // counts calls of Exchange; changed under write
}

// Start starts a server on a new folder below parent, or below the system's folder for temporary files if parent is
// empty. The caller has to call Stop. After an error nothing is left.
func Start(parent string) (*Server, error) {
	return start(parent, newHistory(historyBytes))
}

func start(parent string, history *history) (*Server, error) {
	folder, err := newFolder(parent)
	if err != nil {
		return nil, err
	}
	s := &Server{folder: folder, failure: newFailure(), history: history, outage: newOutage(), quit: make(chan struct{}), pace: newPace()}
	if err := s.open(filepath.Join(folder.path, databaseName)); err != nil {
		return nil, errors.Join(fmt.Errorf("start etcd in %s: %w", folder.path, err), s.end())
	}
	s.tasks.Go(s.revokeExpired)
	s.tasks.Go(s.compactOld)
	return s, nil
}

// open opens the parts, each on the one before.
func (s *Server) open(path string) (err error) {
	defer s.failure.rescue(&err)
	s.backend = backend.New(backend.BackendConfig{
		Path:                path,
		BatchInterval:       never,
		BatchLimit:          maxBatch,
		BackendFreelistType: "hashmap",
		MmapSize:            backend.InitialMmapSize,
		Logger:              s.failure.log,
		UnsafeNoFsync:       true,
	})
	if s.room, err = newRoom(path); err != nil {
		return err
	}
	if err := s.makeRoom(0); err != nil {
		return err
	}
	// The cluster, nil here, is asked for checkpoints alone, which nobody takes.
	s.lessor = lease.NewLessor(s.failure.log, s.backend, nil, lease.LessorConfig{MinLeaseTTL: minLeaseTTL})
	s.store = mvcc.New(s.failure.log, s.backend, s.lessor, mvcc.StoreConfig{
		CompactionBatchLimit: compactionBatch, CompactionSleepInterval: compactionPause,
	})
	s.lessor.Promote(0)
	return s.failure.get()
}

// Stop ends the server and removes its folder. Clients have to be closed before. It returns why the server has failed, if
// it has.
func (s *Server) Stop() error {
	close(s.quit)
	s.tasks.Wait()
	return errors.Join(s.failure.get(), s.end())
}

// end closes what was opened, and removes the folder.
func (s *Server) end() error {
	s.failure.ignore() // the last commit is for nobody
	s.write.Lock()
	broken := s.inTxn
	s.write.Unlock()
	var errs []error
	if broken { // locks of the store are held by nobody, so that closing it would wait for ever
		errs = append(errs, errors.New("etcd broke off a write, and cannot be closed: its memory is left until the process ends"))
	} else {
		errs = append(errs, s.close())
	}
	if s.room != nil {
		errs = append(errs, s.room.close())
	}
	return errors.Join(append(errs, s.folder.remove())...)
}

// close closes the parts that were opened, the last one first.
func (s *Server) close() error {
	var errs []error
	if s.lessor != nil {
		s.lessor.Stop()
	}
	if s.store != nil {
		errs = append(errs, s.store.Close())
	}
	if s.backend != nil {
		errs = append(errs, s.backend.Close())
	}
	return errors.Join(errs...)
}

// begin begins a write, which has to be done.
func (s *Server) begin() {
	s.whole.RLock()
	s.write.Lock()
}

func (s *Server) done() {
	s.write.Unlock()
	s.whole.RUnlock()
}

// visible returns when reads see an event that the store has sent to a watch. The store sends it before it ends the
// write, and a client that reads in between would miss the write. The error is that the server has failed, perhaps in
// that write.
func (s *Server) visible() error {
	s.write.RLock()
	defer s.write.RUnlock()
	return s.failure.get()
}

// Client returns a new client. Clients of one server share nothing but the server, so that a client's watch progress
// never waits for another client's watches. The caller closes it with CloseClient.
func (s *Server) Client() *kubernetes.Client {
	c := clientv3.NewCtxClient(context.Background())
	c.KV = clientv3.NewKVFromKVClient(adapter.KvServerToKvClient(&keyValues{Server: s}), c)
	c.Lease = clientv3.NewLeaseFromLeaseClient(adapter.LeaseServerToLeaseClient(&leases{Server: s}), c, time.Second)
	c.Watcher = newWatches(s)
	k := &kubernetes.Client{Client: c}
	k.Kubernetes = k
	return k
}

// CloseClient ends a client's watches, and returns when they have ended. A client in this process has no connection to
// lose, so that its only error is that it was closed.
func CloseClient(c *kubernetes.Client) {
	_ = c.Close()
}

// Failed returns why the server has failed, or nil.
func (s *Server) Failed() error { return s.failure.get() }
