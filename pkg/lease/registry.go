// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/metrics"
	"github.com/tarn-dev/tarn/internal/scoped"
	"github.com/tarn-dev/tarn/pkg/informers"
)

// defaultIdle is how long an informer goes on without leases, by default.
const defaultIdle = 30 * time.Second

// lessor is a cache of which scopes can be leased. That of package cache is one, and knows nothing of this package: a program
// that holds no lease does not link it.
type lessor interface {
	// Leases returns the leases of the cache. The first call has them made.
	Leases(made func() scoped.Leases) scoped.Leases
	// Go runs f in a goroutine of the cache, which waits for its end. Go reports false, and does not run f, if that has ended.
	Go(f func(context.Context)) bool
	// Kind returns the kind of an object, or of the items of a list.
	Kind(obj runtime.Object) (schema.GroupVersionKind, error)
	// ScopeOf returns the scope of a kind; empty if it is optional and not served, and may come with any.
	ScopeOf(ctx context.Context, gvk schema.GroupVersionKind) (meta.RESTScopeName, error)
	// Maps returns the maps in which the configuration of the cache holds a kind for ever, as far as they may cover scopes in a
	// namespace, and the map whose settings the informers of leases in the namespace have. An empty namespace stands for all.
	Maps(ctx context.Context, gvk schema.GroupVersionKind, namespace string) (wide []*informers.Map, settings *informers.Map, err error)
	// Outside returns the error of a read of what a lease does not hold.
	Outside(gvk schema.GroupVersionKind, key client.ObjectKey, scope string) error
	// ReadLive reads an object from the API server, as the cache would store it. The request begins after the call.
	ReadLive(ctx context.Context, gvk schema.GroupVersionKind, key client.ObjectKey, obj client.Object) error
	// LeaseIdleTime is how long an informer goes on without leases. Zero stands for half a minute.
	LeaseIdleTime() time.Duration
	// LeaseMetrics returns the metrics of leases.
	LeaseMetrics() *metrics.Leases
}

// registry knows which scopes of a cache leases are on, and has their informers.
type registry struct {
	of lessor

	number atomic.Int64 // of all informers

	mu      sync.Mutex // guards what follows; before the locks of maps
	keys    map[informers.Key]*ofKey
	made    uint64 // how many informers there ever were
	copies  map[copyKey]*objectCopy
	leases  map[*Lease]struct{} // that are held
	stopped bool

	controllers []controller // with references
}

// errStopped is the error of a lease that comes too late.
var errStopped = errors.New("the cache has been stopped")

// Acquire returns a lease on a scope of the kind and the representation of obj, which may be empty. C is a cache of package
// github.com/tarn-dev/tarn/pkg/cache, such as mgr.GetCache() of a manager with it. The caller must release the lease.
//
// Acquire does not wait until the scope has synced: see [Lease.WaitForSync]. Before the cache is started, the lease waits for the
// start. It is an error if the scope selects nothing or does not suit the kind, if the kind is not served and not optional, or if
// ctx ends before discovery has answered; ctx does not bound the lease.
func Acquire(ctx context.Context, c crcache.Cache, obj client.Object, scope Scope) (*Lease, error) {
	registry, err := registryOf(c)
	if err != nil {
		return nil, err
	}
	return registry.acquire(ctx, obj, scope)
}

var _ scoped.Leases = (*registry)(nil)

// registryOf returns the registry of a cache. Its first lease makes it.
func registryOf(c crcache.Cache) (*registry, error) {
	if of, ok := c.(lessor); ok {
		return of.Leases(func() scoped.Leases {
			r := &registry{of: of, leases: map[*Lease]struct{}{}}
			of.LeaseMetrics().Ask(r.leased)
			return r
		}).(*registry), nil
	}
	return nil, fmt.Errorf("a %T has no leases: pass a cache as New or With of package github.com/tarn-dev/tarn/pkg/cache made it", c)
}

func (r *registry) acquire(ctx context.Context, obj client.Object, scope Scope) (*Lease, error) {
	gvk, err := r.of.Kind(obj)
	if err != nil {
		return nil, err
	}
	key := informers.KeyOf(gvk, obj)
	var lease *Lease
	at, err := r.placeOf(ctx, key, scope)
	if err == nil {
		lease, err = r.lease(ctx, at, math.MaxInt)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot acquire a lease on %s: %w", key, err)
	}
	return lease, nil
}

// place is where a lease is wanted.
type place struct {
	key      informers.Key
	scope    extent           // what the lease is on
	extent   extent           // what an informer must have; it covers scope
	wide     []*informers.Map // of the configuration, which may have the extent
	settings *informers.Map   // whose settings a new informer has
}

// placeOf returns the place of a scope whose informer has the scope alone. The error says why no informer can.
func (r *registry) placeOf(ctx context.Context, key informers.Key, scope Scope) (place, error) {
	p := place{key: key}
	var err error
	if p.scope, err = scope.check(); err != nil {
		return p, err
	}
	p.extent = p.scope
	if p.wide, p.settings, err = r.of.Maps(ctx, key.GroupVersionKind, p.scope.namespace); err != nil {
		return p, err
	}
	// An error is told by the map, which knows what it means for the kind.
	if is, err := r.of.ScopeOf(ctx, key.GroupVersionKind); err == nil && is == meta.RESTScopeNameRoot && p.scope.namespace != "" {
		return p, p.scope.clusterScoped()
	}
	return p, nil
}

// ofAll returns the place with an informer of the whole kind, or of the whole namespace if the cache does not hold all with the same
// settings.
func (p place) ofAll() place {
	p.extent = extentOf(p.scope.namespace, informers.Selector{})
	if slices.Contains(p.wide, p.settings) && p.settings.Namespace() == "" {
		p.extent = extent{}
	}
	return p
}

// lease returns a lease in a place. At most so many informers of the kind have one name each, or a label selector, for whatever leases;
// the result is nil if one more would be needed. If there may be none, none of one name serves.
func (r *registry) lease(ctx context.Context, p place, most int) (*Lease, error) {
	for _, m := range p.wide {
		has := extentOf(m.Namespace(), m.Selector())
		if !has.covers(p.extent) || p.extent.namespace == "" && m.IsForOneScope(p.key) {
			continue
		}
		entry, letGo, ok := m.Hold(p.key)
		if !ok {
			continue
		}
		if !p.scope.covers(has) && entry.Failing() != nil { // the scope alone may be permitted
			letGo()
			continue
		}
		return newLease(r, entry, p.scope, has, letGo), nil
	}
	s, err := r.hold(p, most)
	if s == nil {
		return nil, err
	}
	letGo := sync.OnceFunc(func() { r.letGo(s) })
	entry, err := s.in.Get(ctx, p.key) // without the lock, since it may ask the API server
	if err != nil {
		letGo()
		return nil, err
	}
	return newLease(r, entry, p.scope, s.extent, letGo), nil
}

// hold returns the oldest informer for a place, for one more lease. It begins one if there is none; see lease for most.
func (r *registry) hold(p place, most int) (*served, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return nil, errStopped
	}
	if r.keys == nil {
		r.keys = map[informers.Key]*ofKey{}
	}
	of := r.keys[p.key]
	if of == nil {
		of = &ofKey{}
	}
	s := of.oldest(p.extent, func(s *served) bool {
		return s.settings == p.settings && (most > 0 || s.extent.name == "") && s.extent.covers(p.extent) && (p.extent.covers(s.extent) || !s.fails())
	})
	if s == nil && of.alike(p.extent) >= most {
		return nil, nil
	}
	if s == nil {
		r.keys[p.key] = of
		r.made++
		s = &served{in: p.settings.Part(p.extent.namespace, p.extent.selector), settings: p.settings, key: p.key, extent: p.extent, age: r.made}
		of.add(s)
		r.number.Add(1)
	}
	s.leases++
	s.stopIdleLocked()
	return s, nil
}

// letGo says that a lease is over. After the last one the informer goes on for the idle time. It ends at once if it was never made.
func (r *registry) letGo(s *served) {
	_, made := s.in.Peek(s.key)
	r.mu.Lock()
	if s.leases--; s.leases > 0 || s.ended || r.stopped {
		r.mu.Unlock()
		return
	}
	if !made {
		r.removeLocked(s)
		r.mu.Unlock()
		s.end()
		return
	}
	r.idleLocked(s)
	r.mu.Unlock()
}

// idleLocked begins the idle time of an informer.
func (r *registry) idleLocked(s *served) {
	s.stopIdleLocked()
	turn := s.turn
	s.since = time.Now()
	s.idle = time.AfterFunc(cmp.Or(r.of.LeaseIdleTime(), defaultIdle), func() { r.expire(s, turn) })
}

// expire ends an informer whose idle time is over, unless a lease has come since the timer was set.
func (r *registry) expire(s *served, turn uint64) {
	if r.removeIdle(s, turn) {
		s.end()
	}
}

// removeIdle removes an informer that the caller then ends, unless a lease has come since it had that turn.
func (r *registry) removeIdle(s *served, turn uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.turn != turn || s.ended || r.stopped {
		return false
	}
	s.stopIdleLocked()
	r.removeLocked(s)
	return true
}

// stopIdleLocked stops the timer, also if it has fired and waits for the lock.
func (s *served) stopIdleLocked() {
	s.turn++
	if s.idle != nil {
		s.idle.Stop()
		s.idle = nil
	}
}

func (r *registry) removeLocked(s *served) {
	s.ended = true
	r.number.Add(-1)
	of := r.keys[s.key]
	if of.remove(s); of.empty() {
		delete(r.keys, s.key)
	}
}

// end ends an informer that the registry has no more. It may wait for a function of the user's that indexes the objects.
func (s *served) end() { _ = s.in.Remove(s.key) } // nobody holds it

// Stop implements scoped.Leases.
func (r *registry) Stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	for _, of := range r.keys {
		for s := range of.all() {
			s.stopIdleLocked()
		}
	}
}

// Maps implements scoped.Leases.
func (r *registry) Maps() []*informers.Map {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*informers.Map
	for _, of := range r.keys {
		for s := range of.all() {
			all = append(all, s.in)
		}
	}
	return all
}

// Held implements scoped.Leases.
func (r *registry) Held(found func(by *informers.MapEntry, scope fmt.Stringer)) {
	r.mu.Lock()
	all := slices.Collect(maps.Keys(r.leases))
	r.mu.Unlock()
	for _, l := range all {
		found(l.entry, &l.scope)
	}
}

// leased returns what there is for leases, by kind.
func (r *registry) leased() map[schema.GroupVersionKind]metrics.Leased {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[schema.GroupVersionKind]metrics.Leased{}
	for key, of := range r.keys {
		is := all[key.GroupVersionKind]
		is.Wider += len(of.wide)
		for _, named := range of.named {
			is.Names += len(named)
		}
		all[key.GroupVersionKind] = is
	}
	for l := range r.leases {
		is := all[l.gvk()]
		is.Leases++
		all[l.gvk()] = is
	}
	return all
}

// Holding implements scoped.Leases.
func (r *registry) Holding(gvk schema.GroupVersionKind, object client.ObjectKey) []*informers.Map {
	if r.number.Load() == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []*informers.Map
	for _, representation := range []informers.Representation{informers.Structured, informers.Unstructured, informers.Metadata} {
		of := r.keys[informers.Key{GroupVersionKind: gvk, Representation: representation}]
		if of == nil {
			continue
		}
		candidates := of.all()
		if object.Name != "" {
			candidates = of.near(object)
		}
		for s := range candidates {
			if object.Namespace == "" || s.extent.namespace == "" || s.extent.namespace == object.Namespace {
				found = append(found, s.in)
			}
		}
	}
	return found
}

// Serving implements scoped.Leases.
func (r *registry) Serving(key informers.Key, m *informers.Map, read client.ObjectKey) *informers.Map {
	if r.number.Load() == 0 {
		return nil
	}
	if _, ok := m.Peek(key); ok {
		return nil
	}
	whole := extentOf(m.Namespace(), m.Selector())
	wanted := whole.within(read)
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.keys[key]
	if of == nil {
		return nil
	}
	s := of.oldest(wanted, func(s *served) bool {
		return s.settings == m && s.extent.covers(wanted) && whole.covers(s.extent.within(read))
	})
	if s == nil {
		return nil
	}
	if entry, made := s.in.Peek(key); !made || entry.Failing() != nil {
		return nil
	}
	if s.leases == 0 && !r.stopped { // it is used
		r.idleLocked(s)
	}
	return s.in
}
