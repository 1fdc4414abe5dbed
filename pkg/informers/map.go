// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/listwatch"
	"github.com/tarn-dev/tarn/internal/resolver"
)

// Map holds the informers of one scope.
type Map struct {
	options Options
	runner  *runner
	left    chan struct{} // closed by Leave

	mu      sync.RWMutex // guards what follows; comes before runner.mu
	entries map[Key]*MapEntry
	watches map[schema.GroupVersionKind]*sharedWatch // of the kinds whose entries share one
}

// NewMap returns a map without informers.
func NewMap(o Options) *Map {
	o.written = &written{}
	return newMap(o, newRunner())
}

func newMap(o Options, in *runner) *Map {
	return &Map{
		options: o, runner: in, left: make(chan struct{}),
		entries: map[Key]*MapEntry{}, watches: map[schema.GroupVersionKind]*sharedWatch{},
	}
}

// Start runs the informers of the map, also those that are added later, until ctx ends. It returns when every goroutine of the map has
// returned. A second call is an error. If a kind with the policy FailFast has failed, Start ends earlier and returns a *NotSyncedError.
func (m *Map) Start(ctx context.Context) error { return m.runner.run(ctx) }

// Failed reports whether the map has ended itself, or is about to, because a kind with the policy FailFast has failed.
func (m *Map) Failed() bool { return m.runner.failed() }

// Abandon gives back what the informers of a map hold in the process: their names, and the writes that were noted. It does nothing if the
// map was started: the informers give them back when they end. An abandoned map must not be started.
func (m *Map) Abandon() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.runner.abandon() {
		return
	}
	for _, entry := range m.entries { // the last view of a shared watch ends that
		entry.end()
	}
}

// run runs an entry, and reports false if the map has stopped.
func (m *Map) run(e *MapEntry) bool {
	if e.waiting.policy == FailFast || e.waiting.policy == Isolate {
		m.runner.Go(func(ctx context.Context) { e.enforcePolicy(ctx, m.runner.fail) })
	}
	return m.runner.Go(func(ctx context.Context) { e.run(ctx, m.options.Logger) })
}

// Go runs f in a goroutine as soon as the map is started. Start waits for it, so f must return when
// its context ends. If the map has stopped, f is not run, and the result is false.
func (m *Map) Go(f func(context.Context)) bool { return m.runner.Go(f) }

// Name returns the name of the cache.
func (m *Map) Name() string { return m.options.Name }

// Started reports whether Start has been called.
func (m *Map) Started() bool {
	select {
	case <-m.runner.started:
		return true
	default:
		return false
	}
}

// Excludes reports whether the map's field selector, or those of KindTuning.Whole, exclude the object of a kind, whatever is in it.
func (m *Map) Excludes(gvk schema.GroupVersionKind, key client.ObjectKey) bool {
	return m.options.Selector.Excludes(key) || m.options.rule(gvk).Excludes(key)
}

// Describe returns the text that names what is selected of a kind. It is empty if that is all.
func (m *Map) Describe(gvk schema.GroupVersionKind) string {
	return m.options.Selector.Describe(m.options.rule(gvk).Describe())
}

// Transform returns what the map would store of an object.
func (m *Map) Transform(obj any) (any, error) {
	if m.options.Transform == nil {
		return obj, nil
	}
	return m.options.Transform(obj)
}

// Peek returns the entry for key if there is one.
func (m *Map) Peek(key Key) (*MapEntry, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	entry, ok := m.entries[key]
	return entry, ok
}

// Get returns the entry for key, and makes it if there is none. If the map is started, the informer
// of the entry runs. Get does not wait until it has synced, see [MapEntry.WaitForSync]. If ctx has
// ended, or ends before discovery has answered, Get makes no entry and returns a Timeout API error.
func (m *Map) Get(ctx context.Context, key Key) (*MapEntry, error) {
	if entry, ok := m.Peek(key); ok {
		return entry, nil
	}
	found := make([]*MapEntry, 1)
	err := key.GetAll(ctx, []*Map{m}, found, nil)
	return found[0], err
}

// GetAll is [Map.Get] for each of the maps whose element in found is nil, and puts the entry there. It asks for the resource
// of the kind at most once: the maps belong to one cache, and have the same RESTMapper. It ends at the first error.
//
// CallSite is nil, or returns where the program reads what needs the entries. It is called if an informer is started. Then a
// line of the log names the call site, metrics count the informers, and [MapEntry.StartedBy] returns the call site.
func (key Key) GetAll(ctx context.Context, from []*Map, found []*MapEntry, callSite func() string) error {
	by := &starter{callSite: callSite}
	err := key.getAll(ctx, from, found, by)
	if len(by.made) > 0 {
		by.tell(key, from[0].options.Shared)
	}
	return err
}

func (key Key) getAll(ctx context.Context, from []*Map, found []*MapEntry, by *starter) error {
	var answer *mapped
	for i, m := range from {
		if found[i] == nil {
			found[i], _ = m.Peek(key)
		}
		if found[i] != nil {
			continue
		}
		if ctx.Err() != nil {
			return apierrors.NewTimeoutError(fmt.Sprintf("did not start to cache %s: %v", key, context.Cause(ctx)), 0)
		}
		if answer == nil {
			// The mapping may need a request to the server. It is done without the lock, so that other kinds do not wait for it.
			answer = &mapped{by: by}
			answer.mapping, answer.err = m.options.resolver.Mapping(ctx, m.options.Mapper, key.GroupVersionKind)
		}
		var err error
		if found[i], err = m.mappedEntry(key, answer); err != nil {
			return err
		}
	}
	return nil
}

// mapped is what a RESTMapper has answered, and what needs the entry.
type mapped struct {
	mapping *meta.RESTMapping
	err     error
	by      *starter
}

// mappedEntry returns the entry for key, and makes it by what the mapper has answered.
func (m *Map) mappedEntry(key Key, answer *mapped) (*MapEntry, error) {
	if err := answer.err; err != nil && !(m.options.isOptional(key) && resolver.MayCome(err)) {
		return nil, m.notMapped(key, err)
	}
	failed := &listwatch.Failures{}
	if err := m.options.checkTypes(key); err != nil { // it may be a view of what needs no type
		return nil, err
	}
	if m.options.isOptional(key) {
		return m.getOptional(key, answer, failed)
	}
	src, err := newSource(&m.options, failed.Client(m.options.HTTPClient), m.options.watched(key), answer.mapping)
	switch {
	case runtime.IsNotRegisteredError(err): // it does not unwrap, so err must stay as it is
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("cannot list and watch %s: %w", key, err)
	}
	return m.add(key, answer.by, func(key Key) (*MapEntry, error) {
		return newEntry(&m.options, key, answer.mapping, failed.Source(src), failed, nil)
	})
}

// getOptional is mappedEntry for an optional kind, which the API server may not serve.
func (m *Map) getOptional(key Key, answer *mapped, failed *listwatch.Failures) (*MapEntry, error) {
	known, err := m.options.newOptional(key, answer, failed, m.options.watched(key))
	if err != nil {
		return nil, err
	}
	return m.add(key, answer.by, func(key Key) (*MapEntry, error) {
		return newEntry(&m.options, key, known.source.Mapping(), failed.Source(known.source), failed, known)
	})
}

// notMapped returns the error for a kind whose resource is unknown.
func (m *Map) notMapped(key Key, err error) error {
	unknown := key.MappingError(err)
	reason, late := unknown.(*NotSyncedError)
	switch {
	case meta.IsNoMatchError(err):
		reason = &NotSyncedError{Key: key, Cause: NotServed, Since: time.Now(), Attempts: 1, Err: unknown}
	case !late:
		return unknown
	}
	reason.Namespace = m.options.Namespace
	return reason
}

// add returns the entry for key. It makes the entry unless another goroutine has done so.
func (m *Map) add(key Key, by *starter, create func(Key) (*MapEntry, error)) (*MapEntry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if entry, ok := m.entries[key]; ok {
		return entry, nil
	}
	stopped := fmt.Errorf("cannot start an informer of %s: %w", key, errStopped)
	if m.runner.ended() || m.HasLeft() {
		return nil, stopped
	}
	_, watched := m.watches[key.GroupVersionKind] // a view of it begins no watch
	entry, err := m.newLocked(key, create)
	if err != nil {
		return nil, err
	}
	if !m.run(entry) { // it has stopped meanwhile
		entry.end()
		m.forgetEndedLocked(key.GroupVersionKind)
		return nil, stopped
	}
	if !watched {
		by.started(entry)
	}
	m.entries[key] = entry
	return entry, nil
}

func (m *Map) newLocked(key Key, create func(Key) (*MapEntry, error)) (*MapEntry, error) {
	if m.options.isView(key) {
		return m.newViewLocked(key, func() (*MapEntry, error) { return m.newInformer(m.options.watched(key), create) })
	}
	return m.newInformer(key, create)
}

// newInformer makes an entry with an informer of its own.
func (m *Map) newInformer(key Key, create func(Key) (*MapEntry, error)) (*MapEntry, error) {
	entry, err := create(key)
	if err != nil {
		return nil, err
	}
	if known := entry.optional(); known != nil {
		entry.life.then(known.follow())
	}
	entry.metrics.Made(shown{entry})
	return entry, nil
}

// Remove stops the informer for key, if there is one, and removes it from the map. It does not wait
// until its goroutines have ended; Start does. It is an error, and the informer stays, as long as somebody holds it.
func (m *Map) Remove(key Key) error { return key.RemoveAll([]*Map{m}) }

// take removes an entry, and stops its informer. It returns nil if there is none.
func (m *Map) take(key Key) *MapEntry {
	m.mu.Lock()
	defer m.mu.Unlock()
	entry, ok := m.entries[key]
	if !ok {
		return nil
	}
	if delete(m.entries, key); m.options.place == aPart {
		m.leaveLocked()
	}
	entry.end()
	m.forgetEndedLocked(key.GroupVersionKind)
	return entry
}

// Part returns a map without informers for another scope, with the settings of m. Its informers run while m does, or the map of which m is
// a live one, in goroutines of that: a part is neither started nor abandoned. It knows which kinds the program has written in the scope of
// m. Parts may be many, and overlap: their informers have no names in the metrics of client-go, and the policy FailFast is Isolate for
// them. A part makes no informer after one was removed. A part without a namespace holds an optional kind with whichever scope it comes, and one with a namespace if it is namespaced.
func (m *Map) Part(namespace string, selector Selector) *Map {
	m.mu.RLock()
	o := m.options
	m.mu.RUnlock()
	o.Namespace, o.Selector, o.place, o.wides, o.Scope = namespace, selector, aPart, nil, ""
	if namespace != "" {
		o.Scope = meta.RESTScopeNameNamespace
	}
	return newMap(o, cmp.Or(m.runner.parts, m.runner))
}

// IsForOneScope reports whether a kind, an optional one, may come with a scope with which the map does not hold it.
func (m *Map) IsForOneScope(key Key) bool { return m.options.Scope != "" && m.options.isOptional(key) }

// Namespace returns the namespace to which the map is restricted; empty for all.
func (m *Map) Namespace() string { return m.options.Namespace }

// Selector returns the selectors of the map.
func (m *Map) Selector() Selector { return m.options.Selector }

// WaitForCacheSync waits until the map is started, and then until every informer that it holds has synced or was removed. It does not wait
// for kinds without which others go on, see FailurePolicy. It returns false if ctx ends first.
func (m *Map) WaitForCacheSync(ctx context.Context) bool {
	select {
	case <-m.runner.started:
	case <-m.left:
	case <-ctx.Done():
		return false
	}
	for _, entry := range m.Entries() {
		skipped, err := entry.waitForCacheSync(ctx)
		switch {
		case skipped != nil:
			if was := entry.waiting.skipped.Swap(&skipped.Cause); was == nil || *was != skipped.Cause {
				m.options.Logger.Info("Not waiting for the cache of a kind", "kind", entry.String(), "reason", skipped.Error())
			}
		case err != nil && !m.removed(entry) && !m.HasLeft():
			m.options.Logger.Info("The cache did not sync", "reason", err.Error())
			return false
		}
	}
	return true
}

// Entries returns the entries of the map, in no order.
func (m *Map) Entries() []*MapEntry {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return slices.Collect(maps.Values(m.entries))
}

// removed reports whether entry is no longer in the map.
func (m *Map) removed(entry *MapEntry) bool {
	current, ok := m.Peek(entry.key)
	return !ok || current != entry
}
