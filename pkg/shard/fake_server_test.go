// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/tarn-dev/tarn/internal/signal"
)

// fakeServer has the Leases of one namespace, with the rules of an API server.
type fakeServer struct {
	ctx     context.Context // of the requests that wait for a connection
	changed signal.Broadcast
	mu      sync.Mutex // guards what follows
	random  *rand.Rand
	now     map[string]*coordinationv1.Lease
	events  []watch.Event // one for each revision
	uids    int
	calm    bool // no more faults of links happen
}

func newFakeServer(ctx context.Context, random *rand.Rand) *fakeServer {
	return &fakeServer{ctx: ctx, random: random, now: map[string]*coordinationv1.Lease{}}
}

var leaseResource = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

// upTo returns a random duration.
func (s *fakeServer) upTo(d time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Duration(s.random.Int64N(int64(d) + 1))
}

// record makes a revision under the lock.
func (s *fakeServer) record(of watch.EventType, l *coordinationv1.Lease) *coordinationv1.Lease {
	l.ResourceVersion = strconv.Itoa(len(s.events) + 1)
	s.events = append(s.events, watch.Event{Type: of, Object: l})
	if s.now[l.Name] = l; of == watch.Deleted {
		delete(s.now, l.Name)
	}
	s.changed.Notify()
	return l.DeepCopy()
}

func (s *fakeServer) create(l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now[l.Name] != nil {
		return nil, apierrors.NewAlreadyExists(leaseResource, l.Name)
	}
	s.uids++
	l = l.DeepCopy()
	l.UID = types.UID("uid-" + strconv.Itoa(s.uids))
	return s.record(watch.Added, l), nil
}

func (s *fakeServer) update(l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.now[l.Name]
	switch {
	case before == nil:
		return nil, apierrors.NewNotFound(leaseResource, l.Name)
	case before.UID != l.UID || before.ResourceVersion != l.ResourceVersion:
		return nil, apierrors.NewConflict(leaseResource, l.Name, errors.New("modified"))
	}
	return s.record(watch.Modified, l.DeepCopy()), nil
}

func (s *fakeServer) delete(name string, p *metav1.Preconditions) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.now[name]
	switch {
	case before == nil:
		return apierrors.NewNotFound(leaseResource, name)
	case p != nil && (*p.UID != before.UID || *p.ResourceVersion != before.ResourceVersion):
		return apierrors.NewConflict(leaseResource, name, errors.New("modified"))
	}
	s.record(watch.Deleted, before.DeepCopy())
	return nil
}

func (s *fakeServer) get(name string) (*coordinationv1.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.now[name]; l != nil {
		return l.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(leaseResource, name)
}

func (s *fakeServer) list() (*coordinationv1.LeaseList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := &coordinationv1.LeaseList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(len(s.events))}}
	for _, name := range slices.Sorted(maps.Keys(s.now)) {
		list.Items = append(list.Items, *s.now[name].DeepCopy())
	}
	return list, nil
}

// link is the way of one process to the server, as a client. The faults are probabilities.
type link struct {
	coordinationclient.LeaseInterface // the requests that a ring does not make
	server                            *fakeServer
	delay                             time.Duration // at most, each way
	lost, late                        float64       // answers that do not come, and requests that are under way for seconds
	changed                           signal.Broadcast
	mu                                sync.Mutex // guards what follows
	cut, dead                         bool
}

func (l *link) Leases(string) coordinationclient.LeaseInterface { return l }

// setCut cuts the connection, or heals it.
func (l *link) setCut(cut bool) {
	l.mu.Lock()
	l.cut = cut || l.dead
	l.mu.Unlock()
	l.changed.Notify()
}

// kill cuts the connection for good. Requests that the server has not got are lost.
func (l *link) kill() {
	l.mu.Lock()
	l.dead, l.cut = true, true
	l.mu.Unlock()
}

func (l *link) isCut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut
}

// chance draws.
func (l *link) chance(p float64) bool {
	drawn := l.server.upTo(1e9) < time.Duration(p*1e9)
	l.server.mu.Lock()
	defer l.server.mu.Unlock()
	return drawn && !l.server.calm
}

// setCalm ends the faults of links, or lets them happen again.
func (s *fakeServer) setCalm(calm bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calm = calm
}

var errReset = errors.New("connection reset by peer")

// request carries a request to the server, which may get it after the client has given up.
func request[T any](ctx context.Context, l *link, serve func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		delay := l.server.upTo(l.delay)
		if l.chance(l.late) {
			delay += l.server.upTo(20 * time.Second)
		}
		time.Sleep(delay)
		if l.isCut() && l.chance(0.5) {
			return
		}
		if l.changed.Until(l.server.ctx, func() bool { return !l.isCut() }) != nil {
			return
		}
		value, err := serve()
		time.Sleep(l.server.upTo(l.delay))
		switch {
		case l.isCut() || l.chance(l.lost/2):
		case l.chance(l.lost / 2):
			answers <- answer{err: errReset}
		default:
			answers <- answer{value, err}
		}
	}()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

func (l *link) Create(ctx context.Context, lease *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return request(ctx, l, func() (*coordinationv1.Lease, error) { return l.server.create(lease) })
}

func (l *link) Update(ctx context.Context, lease *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return request(ctx, l, func() (*coordinationv1.Lease, error) { return l.server.update(lease) })
}

func (l *link) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	_, err := request(ctx, l, func() (struct{}, error) { return struct{}{}, l.server.delete(name, o.Preconditions) })
	return err
}

func (l *link) Get(ctx context.Context, name string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	return request(ctx, l, func() (*coordinationv1.Lease, error) { return l.server.get(name) })
}

func (l *link) List(ctx context.Context, _ metav1.ListOptions) (*coordinationv1.LeaseList, error) {
	return request(ctx, l, l.server.list)
}

// Watch brings each event after a delay. A watch that was cut off goes on when the connection is healed, or it ends.
func (l *link) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	next, err := strconv.Atoi(o.ResourceVersion)
	if err != nil {
		return nil, err
	}
	events := make(chan watch.Event)
	proxy := watch.NewProxyWatcher(events)
	ctx, stop := context.WithCancel(ctx)
	go func() {
		defer close(events)
		defer stop()
		for {
			var event watch.Event
			err := l.server.changed.Until(ctx, func() bool {
				l.server.mu.Lock()
				defer l.server.mu.Unlock()
				if next == len(l.server.events) {
					return false
				}
				event = l.server.events[next]
				event.Object = event.Object.DeepCopyObject()
				return true
			})
			next++
			if err != nil {
				return
			}
			select {
			case <-time.After(l.server.upTo(l.delay)):
			case <-ctx.Done():
				return
			}
			if l.isCut() {
				if l.changed.Until(ctx, func() bool { return !l.isCut() }) != nil || l.chance(0.5) {
					return
				}
			}
			select {
			case events <- event:
			case <-ctx.Done():
				return
			case <-proxy.StopChan():
				return
			}
		}
	}()
	return proxy, nil
}
