// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/metrics"
	"github.com/tarn-dev/tarn/internal/projection"
	"github.com/tarn-dev/tarn/internal/served"
	"github.com/tarn-dev/tarn/pkg/informers"
	"github.com/tarn-dev/tarn/pkg/reader"
)

// informerCache is the cache. It finds the scopes of a kind, and in them the informers and readers.
// All other state is in the informer maps.
type informerCache struct {
	scheme    *runtime.Scheme
	kinds     *layout
	leases    leases
	bounds    *bounds // nil if nothing has one
	tuning    func(schema.GroupVersionKind) TuningByObject
	release   func() // makes the name of the cache free again
	life      life
	logger    logr.Logger
	readEarly sync.Once // logs a read before the start
	misses    misses
}

// life is where a cache is in its life.
type life struct {
	started atomic.Bool      // Start was called
	failed  atomic.Bool      // a kind with the policy FailFast has failed
	served  *served.Follower // nil if no kind is optional
}

var _ Cache = (*informerCache)(nil)

var errStarted = errors.New("informer already started: a cache can be started once")

func newInformerCache(opts Options, shared *informers.Shared, tuning *Tuning) (*informerCache, error) {
	live, err := newLiveNamespaces(&opts, shared, tuning)
	if err != nil {
		return nil, err
	}
	kinds, err := newLayout(&opts, shared, live)
	if err != nil {
		return nil, err
	}
	return &informerCache{
		scheme: opts.Scheme,
		kinds:  kinds,
		leases: leases{idle: tuning.LeaseIdleTime, metrics: shared.Metrics.Leases()},
		life:   life{served: shared.Served},
		tuning: shared.Tuning,
		logger: shared.Logger,
	}, nil
}

// Get implements client.Reader.
func (c *informerCache) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	gvk, err := kindOf(obj, c.scheme)
	if err != nil {
		return err
	}
	if err := checkOptions(opts); err != nil {
		return fmt.Errorf("cannot get %s %s: %w", gvk.Kind, key, err)
	}
	s, err := c.scopesToRead(ctx, gvk)
	if err != nil {
		return err
	}
	id := informers.KeyOf(gvk, obj)
	m, err := s.mapOf(key.Namespace)
	if err != nil {
		err = c.absentOr(ctx, id, s, s.outside(gvk, key, fmt.Errorf("unable to get: %s %s because of %w", gvk.Kind, key, err)))
	} else {
		own := m
		m = c.orLeased(id, m, key)
		if asksThrough(opts) && key.Name != "" && c.holdsNoneWhole(gvk) {
			return c.misses.through(ctx, m, id, key, obj)
		}
		if err = c.get(ctx, m, id, key, obj, opts); err != nil && m != own && m.HasLeft() { // the last lease was released meanwhile
			m = own
			err = c.get(ctx, m, id, key, obj, opts)
		}
		if err != nil && m.HasLeft() { // it may be there
			err = c.gone(ctx, gvk, key)
		}
		if err == nil && asksThrough(opts) && projection.MarkOf(obj) != nil {
			return c.misses.through(ctx, m, id, key, obj)
		}
	}
	if err != nil {
		return c.misses.answer(ctx, m, id, key, obj, c.readsThrough(gvk, opts), err)
	}
	return nil
}

// get reads an object from the map that would hold it.
func (c *informerCache) get(ctx context.Context, in *informers.Map, id informers.Key, key client.ObjectKey, obj client.Object, opts []client.GetOption) error {
	entries, err := c.serving(ctx, id, []*informers.Map{in})
	if err != nil {
		return err
	}
	return entries[0].Get(ctx, key, obj, opts...)
}

// absentOr returns the error of reads if an optional kind is not served: nobody knows yet whether a key without a
// namespace suits it. Otherwise it returns err.
func (c *informerCache) absentOr(ctx context.Context, id informers.Key, s scopes, err error) error {
	if !c.kinds.namespaced.vary(id.GroupVersionKind) {
		return err
	}
	if _, why := c.serving(ctx, id, s.maps[:min(len(s.maps), 1)]); meta.IsNoMatchError(why) {
		return why
	}
	return err
}

// List implements client.Reader.
func (c *informerCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	gvk, err := kindOfItems(list, c.scheme)
	if err != nil {
		return err
	}
	for {
		o := client.ListOptions{}
		readers, left, err := c.listReaders(ctx, informers.KeyOf(gvk, list), &o, opts)
		if err == nil {
			err = reader.List(ctx, list, &o, readers...)
		}
		switch gone := left(); {
		case gone && o.Namespace != "":
			return c.gone(ctx, gvk, client.ObjectKey{Namespace: o.Namespace})
		case !gone || err == nil || ctx.Err() != nil:
			return err
		}
	}
}

// listReaders applies opts to o and returns the readers for a list of key: those of the namespace
// in o or, if it is empty, those of all namespaces. Left reports whether one of the namespaces has left since.
func (c *informerCache) listReaders(ctx context.Context, key informers.Key, o *client.ListOptions, opts []client.ListOption) (_ []*reader.CacheReader, left func() bool, _ error) {
	left = func() bool { return false }
	if err := checkOptions(opts); err != nil {
		return nil, left, fmt.Errorf("cannot list %s: %w", key.Kind, err)
	}
	o.ApplyOptions(opts)
	s, err := c.scopesToRead(ctx, key.GroupVersionKind)
	if err != nil {
		return nil, left, err
	}
	if s.live != nil {
		left = func() bool { return s.hasLeft(o.Namespace) }
	}
	readers, err := c.readersIn(ctx, s, key, o.Namespace, opts)
	return readers, left, err
}

// readersIn returns the readers for a list of a namespace, or of all.
func (c *informerCache) readersIn(ctx context.Context, s scopes, key informers.Key, namespace string, opts []client.ListOption) ([]*reader.CacheReader, error) {
	if namespace == "" && len(s.maps) != 1 {
		return c.readers(ctx, key, opts, s.maps...)
	}
	if namespace == "" {
		return c.readersOrLeased(ctx, key, opts, s.maps[0], "")
	}
	m, err := s.mapOf(namespace)
	if err != nil {
		c.misses.metrics.Missed(key.GroupVersionKind, metrics.MissOutside)
		return nil, s.outside(key.GroupVersionKind, client.ObjectKey{Namespace: namespace},
			fmt.Errorf("unable to list: %s in namespace %q because of %w", key.Kind, namespace, err))
	}
	return c.readersOrLeased(ctx, key, opts, m, namespace)
}

// readersOrLeased returns the readers of key in a map, or in that of a lease that answers in its place.
func (c *informerCache) readersOrLeased(ctx context.Context, key informers.Key, opts []client.ListOption, m *informers.Map, namespace string) ([]*reader.CacheReader, error) {
	leased := c.orLeased(key, m, client.ObjectKey{Namespace: namespace})
	readers, err := c.readers(ctx, key, opts, leased)
	if err != nil && leased != m && leased.HasLeft() { // the last lease was released meanwhile
		return c.readers(ctx, key, opts, m)
	}
	return readers, err
}

// readers returns the readers of key in the given maps. All of them have synced, and are as fresh as
// opts want.
func (c *informerCache) readers(ctx context.Context, key informers.Key, opts []client.ListOption, from ...*informers.Map) ([]*reader.CacheReader, error) {
	entries, err := c.serving(ctx, key, from)
	if err != nil {
		return nil, err
	}
	readers := make([]*reader.CacheReader, len(entries))
	for i, entry := range entries {
		if readers[i], err = entry.FreshReader(opts); err != nil {
			return nil, err
		}
	}
	return readers, nil
}

// checkStarted returns the error of a read before the start.
func (c *informerCache) checkStarted(kind fmt.Stringer) error {
	if c.kinds.started() {
		return nil
	}
	// A log entry says it, because programs compare the type or the whole text of the error.
	c.readEarly.Do(func() {
		c.logger.Info("Objects cannot be read before the cache is started: call Start in a goroutine, and WaitForCacheSync; with a manager, read in what it runs, or with its GetAPIReader", "kind", kind.String())
	})
	return &ErrCacheNotStarted{}
}

// serving returns the entries in the given maps that serve a read of key. All of them have synced.
func (c *informerCache) serving(ctx context.Context, key informers.Key, from []*informers.Map) ([]*informers.MapEntry, error) {
	found := c.view(key, from)
	if slices.Contains(found, nil) {
		if c.failsOnMissing(key.GroupVersionKind) {
			return nil, &ErrResourceNotCached{GVK: key.GroupVersionKind}
		}
		if err := key.GetAll(ctx, from, found, callSite); err != nil {
			return nil, err
		}
	}
	if err := c.checkStarted(key); err != nil {
		return nil, err
	}
	for _, entry := range found {
		if err := entry.WaitForSync(ctx); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// view returns the informers that serve a read of key in each of the maps, as far as they exist.
// These are the informers of key, with one exception: a read of metadata in a map that has no
// informer of metadata is served by one of the whole objects, if that can do it at once.
//
// As soon as an informer of metadata exists it serves the reads of its map, also while it syncs. It
// may have indexes of its own, and a read must not return an older state than the read before,
// also if it reads more namespaces. So a kind whose objects once did not fit their Go type keeps
// its informer of metadata until that is removed. A read of metadata waits for an informer of the
// whole objects only if no other informer may be started, because an object that does not fit its
// Go type may keep that informer from syncing for ever, while an informer of metadata syncs.
func (c *informerCache) view(key informers.Key, from []*informers.Map) []*informers.MapEntry {
	found := peek(key, from)
	if key.Representation != informers.Metadata || c.tuning(key.GroupVersionKind).Storage == SeparateMetadata || !slices.Contains(found, nil) {
		return found
	}
	wait := c.failsOnMissing(key.GroupVersionKind) || !c.kinds.started()
	for i, m := range from {
		if found[i] == nil {
			found[i] = whole(key, m, wait)
		}
	}
	return found
}

// failsOnMissing reports whether a read of a kind may start no informer.
func (c *informerCache) failsOnMissing(gvk schema.GroupVersionKind) bool {
	return ptr.Deref(c.tuning(gvk).ReaderFailOnMissingInformer, false)
}

// whole returns the informer of the whole objects that serves reads of metadata in a map, and nil
// if there is none. It must be up, unless the read may wait.
func whole(key informers.Key, in *informers.Map, wait bool) *informers.MapEntry {
	for _, full := range []informers.Representation{informers.Structured, informers.Unstructured} {
		key.Representation = full
		if entry, ok := in.Peek(key); ok && (wait || entry.Up()) {
			return entry
		}
	}
	return nil
}

// peek returns the entry for key in each of the maps, or nil where there is none.
func peek(key informers.Key, from []*informers.Map) []*informers.MapEntry {
	entries := make([]*informers.MapEntry, len(from))
	for i, m := range from {
		entries[i], _ = m.Peek(key)
	}
	return entries
}

// gone returns the error of a read in a namespace that has left meanwhile. If it has entered again, the program reads again.
func (c *informerCache) gone(ctx context.Context, gvk schema.GroupVersionKind, key client.ObjectKey) error {
	s, err := c.kinds.scopesOf(ctx, gvk)
	if err != nil {
		return err
	}
	if _, err = s.mapOf(key.Namespace); err == nil {
		err = fmt.Errorf("namespace %q has left the cache during the read, and has entered it again", key.Namespace)
	}
	return s.outside(gvk, key, fmt.Errorf("unable to read: %s %s because of %w", gvk.Kind, key, err))
}

// GetInformer implements Informers.
func (c *informerCache) GetInformer(ctx context.Context, obj client.Object, opts ...InformerGetOption) (Informer, error) {
	gvk, err := kindOf(obj, c.scheme)
	if err != nil {
		return nil, err
	}
	return c.informer(ctx, informers.KeyOf(gvk, obj), opts)
}

// GetInformerForKind implements Informers. The objects of the informer have the Go type that the
// scheme registers for gvk.
func (c *informerCache) GetInformerForKind(ctx context.Context, gvk schema.GroupVersionKind, opts ...InformerGetOption) (Informer, error) {
	if err := checkRegistered(gvk, c.scheme); err != nil {
		return nil, err
	}
	return c.informer(ctx, informers.Key{GroupVersionKind: gvk}, opts)
}

func (c *informerCache) informer(ctx context.Context, key informers.Key, opts []InformerGetOption) (Informer, error) {
	if err := checkOptions(opts); err != nil {
		return nil, fmt.Errorf("cannot get an informer of %s: %w", key, err)
	}
	o := InformerGetOptions{}
	for _, apply := range opts {
		apply(&o)
	}
	s, err := c.kinds.scopesOf(ctx, key.GroupVersionKind)
	if err != nil {
		return nil, err
	}
	wait := c.kinds.started() && (o.BlockUntilSynced == nil || *o.BlockUntilSynced)
	if s.live != nil {
		return s.live.informer(ctx, c.kinds.live, key, wait)
	}
	found := make([]*informers.MapEntry, len(s.maps))
	if err := key.GetAll(ctx, s.maps, found, nil); err != nil {
		return nil, err
	}
	for _, entry := range found {
		if err := entry.Want(ctx, wait); err != nil {
			return nil, err
		}
	}
	if len(found) == 1 {
		return found[0].Informer, nil
	}
	return newMultiInformer(s.maps[0], found), nil
}

// RemoveInformer implements Informers. It is no error if there is no such informer. It is one if the informer serves
// leases, in one namespace of several too, and then it stays in all. Informers that were made for leases are not meant. An optional kind that came back
// with another scope may have some in the old scope too.
func (c *informerCache) RemoveInformer(ctx context.Context, obj client.Object) error {
	gvk, err := kindOf(obj, c.scheme)
	if err != nil {
		return err
	}
	if _, err := c.kinds.scopesOf(ctx, gvk); err != nil {
		return err
	}
	remove := func() error { return informers.KeyOf(gvk, obj).RemoveAll(c.kinds.maps()) }
	if err := c.kinds.live.removing(ctx, informers.KeyOf(gvk, obj), remove); err != nil {
		return err
	}
	c.kinds.namespaced.forget(gvk)
	return nil
}

// IndexField implements client.FieldIndexer. It may be called before and after the start of the
// cache, and for a field that is indexed already.
func (c *informerCache) IndexField(ctx context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	gvk, err := kindOf(obj, c.scheme)
	if err != nil {
		return err
	}
	if err := projection.Of(c.tuning(gvk).Fields).CheckIndex(field, goType(c.scheme, gvk)); err != nil {
		return fmt.Errorf("cannot index %s: %w", gvk.Kind, err)
	}
	s, err := c.kinds.scopesOf(ctx, gvk)
	if err != nil {
		return err
	}
	key := informers.KeyOf(gvk, obj)
	if s.live != nil {
		return s.live.index(ctx, c.kinds.live, key, func(e *liveEntry) error { return e.IndexField(field, extract) })
	}
	found := make([]*informers.MapEntry, len(s.maps))
	if err := key.GetAll(ctx, s.maps, found, nil); err != nil {
		return err
	}
	for _, entry := range found {
		if err := entry.IndexField(field, extract); err != nil {
			return err
		}
	}
	return nil
}

// Start implements Informers. It blocks until ctx ends and every goroutine of the cache has
// returned. It can be called once. If a kind with the policy FailFast fails, Start ends earlier and
// returns a *NotSyncedError.
func (c *informerCache) Start(ctx context.Context) error {
	if c.life.started.Swap(true) {
		return errStarted
	}
	defer func() { c.release() }() // not defer c.release(): a cache that runs must not become garbage
	c.countNamespaces()
	group, ctx := errgroup.WithContext(ctx)
	if c.life.served != nil {
		group.Go(func() error {
			c.life.served.Run(ctx)
			return nil
		})
	}
	if c.bounds != nil {
		group.Go(func() error {
			c.bounds.run(ctx, c)
			return nil
		})
	}
	for _, m := range c.kinds.fixed() {
		group.Go(func() error {
			err := m.Start(ctx)
			if why := (*NotSyncedError)(nil); errors.As(err, &why) {
				c.life.failed.Store(true) // before the group ends the other maps
			}
			return err
		})
	}
	err := group.Wait()
	if made := c.leases.made.Load(); made != nil {
		(*made).Stop()
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// WaitForCacheSync implements Informers. It waits until the cache is started and has synced, and
// returns false if ctx ends first. It does not wait for kinds without which others go on, see
// FailurePolicy, nor for leases whose scope cannot be listed: who has them waits. If the cache has ended itself, because a kind with the policy FailFast has failed,
// the result is true: a manager looks at the error of Start only when WaitForCacheSync has returned
// true, and would wait for ever.
func (c *informerCache) WaitForCacheSync(ctx context.Context) bool {
	if !c.kinds.waitForCacheSync(ctx) {
		return c.life.failed.Load() || slices.ContainsFunc(c.kinds.maps(), (*informers.Map).Failed)
	}
	for _, m := range c.leased() {
		for _, entry := range m.Entries() {
			if entry.TryForSync(ctx) != nil && ctx.Err() != nil {
				return false
			}
		}
	}
	return true
}

// NotSynced returns why the kinds that a cache should hold are not cached as they are in the API
// server, one value for each kind, representation and scope, sorted by their texts. It is empty if
// all have synced and go on. It works only with a cache that this package made, and is empty for any
// other.
func NotSynced(c Cache) []*NotSyncedError {
	ours, ok := c.(*informerCache)
	if !ok {
		return nil
	}
	var all []*NotSyncedError
	for _, m := range ours.maps() {
		for _, entry := range m.Entries() {
			if reason := entry.NotSynced(); reason != nil {
				all = append(all, reason)
			}
		}
	}
	slices.SortFunc(all, func(a, b *NotSyncedError) int { return strings.Compare(a.Error(), b.Error()) })
	return all
}

// NeedLeaderElection returns false: a manager starts the cache before it is elected.
func (c *informerCache) NeedLeaderElection() bool { return false }
