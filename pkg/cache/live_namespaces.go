// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarn-dev/tarn/internal/metrics"
	"github.com/tarn-dev/tarn/internal/namespaces"
	"github.com/tarn-dev/tarn/internal/signal"
	"github.com/tarn-dev/tarn/pkg/informers"
)

// maxLeft bounds how many namespaces that have left are remembered for the errors of reads.
const maxLeft = 128

// liveNamespaces are the namespaces of a cache that can be set while it runs. A nil value has none.
type liveNamespaces struct {
	owner    *informers.Map // of the goroutines, which end with the cache
	kinds    []*liveScopes
	selected *namespaces.Selected // nil if a method sets them
	metrics  *metrics.Namespaces

	// turn has one element. A call takes it to change what the program wants: namespaces, informers, indexes. It may wait for discovery.
	turn chan struct{}
	left []string // namespaces that were inside, the newest first; belongs to the turn
}

// newLiveNamespaces returns the live namespaces that the options ask for; nil if they are fixed.
func newLiveNamespaces(opts *Options, shared *informers.Shared, tuning *Tuning) (_ *liveNamespaces, err error) {
	selector, selectable := tuning.Namespaces, false
	if selector != nil {
		_, selectable = selector.Requirements()
	}
	if !selectable && tuning.Shard != nil {
		return nil, errors.New("cache tuning: Shard needs Namespaces: select some, or all with labels.Everything()")
	}
	if selector == nil {
		return nil, nil
	}
	if ring, ok := tuning.Shard.(interface{ Key() string }); ok && ring.Key() != "metadata.namespace" {
		return nil, fmt.Errorf("cache tuning: Shard: the key of the ring is %s, and Shard is for namespaces: leave it nil, and set Whole of each kind to the Selector of the ring", ring.Key())
	}
	if _, all := opts.DefaultNamespaces[AllNamespaces]; all {
		return nil, errors.New("cache tuning: Namespaces: DefaultNamespaces has AllNamespaces, which leaves nothing to select")
	}
	if opts.NewInformer != nil {
		return nil, errors.New("cache tuning: Namespaces cannot be set with the option NewInformer, whose informers do not tell handlers of what leaves")
	}
	n := &liveNamespaces{turn: make(chan struct{}, 1), metrics: shared.Metrics.Namespaces()}
	n.turn <- struct{}{}
	if !selectable {
		return n, nil
	}
	if selector.Empty() && tuning.Shard == nil {
		return nil, errors.New("cache tuning: Namespaces selects all: leave it nil, or use labels.Nothing() and SetNamespaces")
	}
	runs := informers.NewMap(mapOptions(shared, "", Config{Transform: withoutAnnotations}, meta.RESTScopeNameRoot))
	n.selected, err = namespaces.New(runs, selector, tuning.Shard, shared.Logger)
	return n, err
}

// withoutAnnotations takes annotations and managedFields from a Namespace, which nobody reads. Each replica of a ring has all Namespaces.
func withoutAnnotations(obj any) (any, error) {
	if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
		m.Annotations, m.ManagedFields = nil, nil
	}
	return obj, nil
}

// take waits for the turn, which the caller gives back.
func (n *liveNamespaces) take(ctx context.Context) (giveBack func(), err error) {
	select {
	case <-n.turn:
		return func() { n.turn <- struct{}{} }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// scopesToRead is scopesOf for a read, which waits until the namespaces that match are known.
func (c *informerCache) scopesToRead(ctx context.Context, gvk schema.GroupVersionKind) (scopes, error) {
	s, err := c.kinds.scopesOf(ctx, gvk)
	if err != nil || s.live == nil || c.kinds.live.selected.IsKnown() {
		return s, err
	}
	if err := c.checkStarted(gvk); err != nil {
		return s, err
	}
	if err := c.kinds.live.selected.Wait(ctx); err != nil {
		return s, err
	}
	return c.kinds.scopesOf(ctx, gvk)
}

// begin sets the namespaces of the start, or lets the labels of Namespaces set them.
func (n *liveNamespaces) begin(owner *informers.Map, namespaces []string) error {
	n.owner = owner
	if n.selected == nil {
		return n.set(context.Background(), namespaces)
	}
	n.selected.Runs().Go(func(ctx context.Context) { n.selected.Follow(ctx, n.set) })
	return nil
}

// watched returns the map of the Namespaces that match, if labels select them.
func (n *liveNamespaces) watched() []*informers.Map {
	if n == nil || n.selected == nil {
		return nil
	}
	return []*informers.Map{n.selected.Found()}
}

// maps returns the informer maps of now.
func (n *liveNamespaces) maps() (all []*informers.Map) {
	if n == nil {
		return nil
	}
	for _, kinds := range n.kinds {
		all = append(all, kinds.now.Load().maps...)
	}
	return all
}

// helpers returns maps without informers. The watch of Namespaces runs in one. The others give live maps their settings, and run the
// leases in live namespaces.
func (n *liveNamespaces) helpers() (all []*informers.Map) {
	if n == nil {
		return nil
	}
	if n.selected != nil {
		all = append(all, n.selected.Runs())
	}
	for _, kinds := range n.kinds {
		all = append(all, kinds.settings)
	}
	return all
}

// SetNamespaces sets the namespaces in which namespaced kinds are cached, if Tuning.Namespaces is labels.Nothing(). Each is cached with
// its settings in Options.DefaultNamespaces, or with the default settings. Kinds whose ByObject has Namespaces keep those.
//
// In a namespace that enters, the informers and the indexes that the program has asked for begin, and event handlers are told of the objects.
// Of a namespace that leaves they are told that each object is deleted, with its last state; if it enters again, that comes after it. They
// are told nothing of namespaces that stay. HasSynced of a handler does not go back. WaitForCacheSync waits for what has entered.
//
// With another selector in Tuning.Namespaces the labels of Namespaces set them, and SetNamespaces returns an error.
//
// SetNamespaces waits for discovery alone, until ctx ends. If it returns an error, nothing has changed. It may be called before
// the start of the cache. Call it on what New returns, or GetCache of a manager, as an interface{ SetNamespaces(context.Context, ...string) error }.
func (c *informerCache) SetNamespaces(ctx context.Context, namespaces ...string) error {
	switch {
	case c.kinds.live == nil:
		return errors.New("cannot set the namespaces of the cache: they are fixed; set Namespaces of its Tuning to labels.Nothing()")
	case c.kinds.live.selected != nil:
		return errors.New("cannot set the namespaces of the cache: those are cached whose labels match; change the labels, or set Namespaces of its Tuning to labels.Nothing()")
	}
	return c.kinds.live.set(ctx, namespaces)
}

func (n *liveNamespaces) set(ctx context.Context, namespaces []string) error {
	for _, namespace := range namespaces {
		if faults := validation.ValidateNamespaceName(namespace, false); len(faults) > 0 {
			return fmt.Errorf("cannot set the namespaces of the cache: %q cannot be the name of a namespace: %s", namespace, strings.Join(faults, "; "))
		}
	}
	giveBack, err := n.take(ctx)
	if err != nil {
		return fmt.Errorf("cannot set the namespaces of the cache: %w", err)
	}
	defer giveBack()
	if n.owner.HasStopped() {
		return errors.New("cannot set the namespaces of the cache: it has been stopped")
	}
	changes := make([]*change, len(n.kinds))
	for i, kinds := range n.kinds {
		if changes[i], err = kinds.prepare(ctx, namespaces); err != nil {
			for _, prepared := range changes[:i+1] {
				prepared.abandon()
			}
			return fmt.Errorf("cannot set the namespaces of the cache: %w", err)
		}
	}
	n.remember(namespaces)
	for _, prepared := range changes {
		prepared.commit(n)
	}
	return nil
}

// remember notes which namespaces leave.
func (n *liveNamespaces) remember(namespaces []string) {
	was := n.kinds[0].now.Load()
	left := slices.DeleteFunc(slices.Concat(was.namespaces, n.left), func(ns string) bool { return slices.Contains(namespaces, ns) })
	n.left = slices.Clip(left[:min(len(left), maxLeft)])
}

// liveScopes are the scopes of a kind, or of those without settings of their own, that follow the namespaces of the cache.
type liveScopes struct {
	shared   *informers.Shared
	settings *informers.Map // of a namespace without settings; it has no informers
	configs  scopeConfigs   // of single namespaces
	all      Config         // of the others
	holds    meta.RESTScopeName

	now atomic.Pointer[scopes]

	mu     sync.Mutex // guards what follows, apart from what the turn guards; before the locks of informers
	wanted map[informers.Key]*liveInformer
	ending map[string]chan struct{} // by namespace: closed when the newest map of it that has left has ended
}

// add returns scopes without a namespace yet.
func (n *liveNamespaces) add(shared *informers.Shared, configs scopeConfigs, all Config, holds meta.RESTScopeName) *liveScopes {
	l := &liveScopes{
		shared: shared, configs: configs, all: all, holds: holds, settings: informers.NewMap(mapOptions(shared, "", all, holds)),
		wanted: map[informers.Key]*liveInformer{}, ending: map[string]chan struct{}{},
	}
	l.now.Store(&scopes{settings: l.settings, live: l})
	n.kinds = append(n.kinds, l)
	return l
}

// change is a change of namespaces that is ready to be made.
type change struct {
	of     *liveScopes
	to     scopes
	enter  []*informers.Map
	leave  []*informers.Map
	opened map[*liveInformer][]*liveEntry // in the maps of enter
}

// prepare makes the maps of namespaces that enter, with the informers that are wanted. They do not run yet. The caller has the turn.
func (l *liveScopes) prepare(ctx context.Context, namespaces []string) (*change, error) {
	was := l.now.Load()
	c := &change{of: l, opened: map[*liveInformer][]*liveEntry{}}
	byNamespace := map[string]*informers.Map{}
	for _, namespace := range namespaces {
		if byNamespace[namespace] != nil {
			continue
		}
		if m, stays := was.byNamespace[namespace]; stays {
			byNamespace[namespace] = m
			continue
		}
		config, own := l.configs[namespace]
		if !own {
			config = l.all
		}
		m := l.settings.Live(mapOptions(l.shared, namespace, config, l.holds), !own)
		byNamespace[namespace] = m
		c.enter = append(c.enter, m)
		for _, wanted := range l.informers() {
			entry, err := wanted.open(ctx, m)
			if err != nil {
				return c, err
			}
			c.opened[wanted] = append(c.opened[wanted], entry)
		}
	}
	for namespace, m := range was.byNamespace {
		if byNamespace[namespace] == nil {
			c.leave = append(c.leave, m)
		}
	}
	c.to = newScopes(byNamespace)
	c.to.settings, c.to.live = l.settings, l
	return c, nil
}

// informers returns what the program wants.
func (l *liveScopes) informers() []*liveInformer {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Values(l.wanted))
}

func (c *change) abandon() {
	for _, m := range c.enter {
		m.Abandon()
	}
}

// commit makes the change. Reads see it at once.
func (c *change) commit(n *liveNamespaces) {
	l := c.of
	l.mu.Lock()
	defer l.mu.Unlock()
	c.to.left = n.left
	l.now.Store(&c.to)
	for _, wanted := range l.wanted {
		wanted.changeLocked(c.opened[wanted], c.leave)
	}
	for _, m := range c.leave {
		m.Leave()
	}
	for _, m := range c.enter {
		l.startLocked(n.owner, m)
	}
}

// startLocked runs a map. If one of the same namespace has left and not ended yet, handlers that are still told of it listen later: reads,
// also those of these handlers, do not wait for them.
func (l *liveScopes) startLocked(owner, m *informers.Map) {
	namespace, ended := m.Namespace(), make(chan struct{})
	before := l.ending[namespace]
	l.ending[namespace] = ended
	started := owner.Go(func(ctx context.Context) {
		defer l.ended(m, ended)
		_ = m.Start(ctx) // there is no FailFast in a live map, and one that has left begins nothing
		signal.WaitFor(ctx, before)
	})
	if !started { // the cache has ended
		m.Abandon()
		close(ended)
		return
	}
	if before != nil {
		owner.Go(func(ctx context.Context) {
			if signal.WaitFor(ctx, before) {
				l.listen(m)
			}
		})
	}
}

// listen lets handlers listen to a map that has entered again, after they were told that all its objects of before are gone.
func (l *liveScopes) listen(m *informers.Map) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, wanted := range l.wanted {
		for _, entry := range wanted.entries {
			if entry.in == m {
				wanted.listenLocked(entry)
			}
		}
	}
}

// ended forgets a map that has ended.
func (l *liveScopes) ended(m *informers.Map, ended chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(ended)
	if l.ending[m.Namespace()] == ended {
		delete(l.ending, m.Namespace())
	}
	for _, wanted := range l.wanted {
		for r := range wanted.handlers {
			delete(r.handles, m)
		}
	}
}
