// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/tarn-dev/tarn/internal/informer"
	"github.com/tarn-dev/tarn/internal/listwatch"
)

// Served tells entries of optional kinds when the API server begins and ends to serve their kinds.
// All maps of a cache share one. It watches the metadata of CRDs and APIServices, and asks discovery
// for the groups of which one has changed. Where it may not watch CRDs, it asks discovery again and
// again, after longer and longer. Without optional kinds it does nothing. Safe for concurrent use.
//
// An entry is told without the lock, by the goroutine of Run.
type Served struct {
	config    *rest.Config
	client    *http.Client
	discovery *discovery.DiscoveryClient
	logger    logr.Logger

	mu     sync.Mutex // guards what follows
	groups map[schema.GroupVersion]*servedGroup
	scopes map[schema.GroupVersionKind]meta.RESTScopeName // of kinds that are followed, as last known
	polls  bool                                           // CRDs may not be watched
	wake   chan struct{}                                  // has one element if there is something to do
}

// servedGroup is a version of a group with optional kinds.
type servedGroup struct {
	entries map[*MapEntry]struct{}
	at      time.Time // of the next look; zero if there is none
	looks   int       // since something has happened
	events  int       // how often something has happened
	left    bool      // all that has happened since the last look that was expected is that something went
}

const (
	// firstLook is how long after the first look the second one follows, and lastLook the number of
	// looks after which nothing more is expected: discovery may be some seconds behind.
	firstLook = 10 * time.Millisecond
	lastLook  = 10
	// shortestPoll and longestPoll are the times between two looks where nothing tells of changes.
	shortestPoll = time.Second
	longestPoll  = time.Minute
)

// NewServed returns what asks the API server of cfg.
func NewServed(cfg *rest.Config, client *http.Client, logger logr.Logger) (*Served, error) {
	asks, err := discovery.NewDiscoveryClientForConfigAndClient(cfg, client)
	return &Served{
		config: cfg, client: client, discovery: asks, logger: logger,
		groups: map[schema.GroupVersion]*servedGroup{}, scopes: map[schema.GroupVersionKind]meta.RESTScopeName{}, wake: make(chan struct{}, 1),
	}, err
}

// ScopeOf returns the scope of an optional kind that is followed, as last known. A kind that was never
// served is taken for a namespaced one.
func (s *Served) ScopeOf(gvk schema.GroupVersionKind) (scope meta.RESTScopeName, followed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	scope, followed = s.scopes[gvk]
	return scope, followed
}

// follow tells an entry from now on, until forget.
func (s *Served) follow(e *MapEntry, scope meta.RESTScopeName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scopes[e.key.GroupVersionKind] = scope
	gv := e.key.GroupVersion()
	if s.groups[gv] == nil {
		s.groups[gv] = &servedGroup{entries: map[*MapEntry]struct{}{}}
	}
	s.groups[gv].entries[e] = struct{}{}
	s.lookLocked(gv, false)
}

func (s *Served) forget(e *MapEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gv := e.key.GroupVersion()
	if group := s.groups[gv]; group != nil {
		delete(group.entries, e)
		if len(group.entries) == 0 {
			delete(s.groups, gv)
		}
	}
}

// look looks soon at a version of a group, in which something came, changed or left. If the version is empty, it
// looks at all of the group, and if the group is empty too, at everything.
func (s *Served) look(changed schema.GroupVersion, left bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for gv := range s.groups {
		if (changed.Group == "" || gv.Group == changed.Group) && (changed.Version == "" || gv.Version == changed.Version) {
			s.lookLocked(gv, left)
		}
	}
}

func (s *Served) lookLocked(gv schema.GroupVersion, left bool) {
	group := s.groups[gv]
	group.left = left && (group.left || group.at.IsZero())
	group.at, group.looks = time.Now(), 0
	group.events++
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run tells entries until ctx ends.
func (s *Served) Run(ctx context.Context) {
	select {
	case <-s.wake: // by the first entry
	case <-ctx.Done():
		return
	}
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() {
		s.watch(ctx, "apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition", true)
	})
	watching.Go(func() { s.watch(ctx, "apiregistration.k8s.io", "apiservices", "APIService", false) })
	for ctx.Err() == nil {
		gv, due := s.next()
		if due <= 0 {
			s.ask(ctx, gv)
			continue
		}
		timer := time.NewTimer(due)
		select {
		case <-timer.C:
		case <-s.wake:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// next returns the version of a group to look at next, and in how long.
func (s *Served) next() (first schema.GroupVersion, due time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	due = time.Hour // somebody wakes
	for gv, group := range s.groups {
		if !group.at.IsZero() && time.Until(group.at) < due {
			first, due = gv, time.Until(group.at)
		}
	}
	return first, due
}

// ask asks discovery for a version of a group, and tells its entries.
func (s *Served) ask(ctx context.Context, gv schema.GroupVersion) {
	events := s.eventsOf(gv)
	resources, err := s.discovery.ServerResourcesForGroupVersionWithContext(ctx, gv.String())
	if apierrors.IsNotFound(err) {
		resources, err = &metav1.APIResourceList{}, nil
	}
	s.mu.Lock()
	group := s.groups[gv]
	if group == nil {
		s.mu.Unlock()
		return
	}
	entries := slices.Collect(maps.Keys(group.entries))
	s.mu.Unlock()
	changed, served := false, false
	if err == nil {
		changed, served = s.tell(entries, resources)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if group.events != events {
		return // it has happened since the question, and is looked at
	}
	if changed {
		group.looks = 0
	}
	group.again(changed || err == nil && group.left && !served, err != nil, s.polls)
}

// eventsOf returns how often something has happened in a version of a group.
func (s *Served) eventsOf(gv schema.GroupVersion) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if group := s.groups[gv]; group != nil {
		return group.events
	}
	return 0
}

// tell tells entries what is served, and reports whether that is new to one of them, and whether any of them is
// served.
func (s *Served) tell(entries []*MapEntry, resources *metav1.APIResourceList) (changed, served bool) {
	for _, e := range entries {
		gvk := e.key.GroupVersionKind
		mapping := mappingIn(resources, gvk)
		if mapping != nil {
			s.mu.Lock()
			s.scopes[gvk] = mapping.Scope.Name()
			s.mu.Unlock()
			served = true
		}
		changed = e.optional().served(mapping, s.logger) || changed
	}
	return changed, served
}

// again sets when to look next. If a look has found what is expected, nothing more is: a change or, after
// something went, that nothing is served.
func (g *servedGroup) again(expected, failed, polls bool) {
	g.looks++
	switch {
	case failed:
		g.at = time.Now().Add(min(firstLook<<min(g.looks, 20), longestPoll))
	case polls:
		g.at = time.Now().Add(wait.Jitter(min(shortestPoll<<min(g.looks-1, 10), longestPoll), 0.1))
	case expected || g.looks >= lastLook:
		g.at = time.Time{}
	default:
		g.at = time.Now().Add(firstLook << g.looks)
	}
}

// mappingIn returns the mapping of a kind in what discovery says, or nil if it is not served.
func mappingIn(resources *metav1.APIResourceList, gvk schema.GroupVersionKind) *meta.RESTMapping {
	for _, r := range resources.APIResources {
		if r.Kind != gvk.Kind || strings.Contains(r.Name, "/") {
			continue
		}
		scope := meta.RESTScopeRoot
		if r.Namespaced {
			scope = meta.RESTScopeNamespace
		}
		return &meta.RESTMapping{Resource: gvk.GroupVersion().WithResource(r.Name), GroupVersionKind: gvk, Scope: scope}
	}
	return nil
}

// watch watches the metadata of the objects that say what is served, until ctx ends or they may not
// be watched. If that is needed, discovery is polled from then on.
func (s *Served) watch(ctx context.Context, group, resource, kind string, needed bool) {
	gv := schema.GroupVersion{Group: group, Version: "v1"}
	source, err := listwatch.Metadata(listwatch.Target{
		Config: s.config, HTTPClient: s.client, Kind: gv.WithKind(kind), Resource: gv.WithResource(resource),
	})
	if err == nil {
		err = s.reflect(ctx, source, kind)
	}
	if !needed || ctx.Err() != nil {
		return
	}
	s.logger.Info("CustomResourceDefinitions cannot be watched: the cache asks discovery for optional kinds, at most once a second and at least once a minute", "reason", err.Error())
	s.mu.Lock()
	s.polls = true
	s.mu.Unlock()
	s.look(schema.GroupVersion{}, false)
}

// reflect lists and watches until ctx ends, or until that is not allowed or the kind is not served: then
// it returns the error. The times between two attempts are client-go's.
func (s *Served) reflect(ctx context.Context, source listwatch.Source, kind string) (err error) {
	var waits sync.WaitGroup
	defer waits.Wait()
	lw := listwatch.New(source, listwatch.Options{Bookmarks: true, Silence: defaultWatchSilence, Cut: func(time.Duration) {}})
	reflector := toolscache.NewReflectorWithOptions(lw, nil, &servedStore{s}, toolscache.ReflectorOptions{
		TypeDescription: kind, Clock: informer.ClockUntil(ctx, &waits),
	})
	backoff := wait.Backoff{Duration: 800 * time.Millisecond, Cap: 30 * time.Second, Steps: 38, Factor: 2, Jitter: 1}
	_ = backoff.DelayWithReset(clock.RealClock{}, 2*time.Minute).Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		err = reflector.ListAndWatchWithContext(logr.NewContext(ctx, logr.Discard()))
		cause, _ := causeOf(orNothing(err))
		return cause == Forbidden || cause == NotServed || cause == Unauthorized, nil
	})
	return err
}

// servedStore is where a Reflector writes what says which kinds are served. It keeps nothing.
type servedStore struct{ served *Served }

var _ toolscache.ReflectorStore = (*servedStore)(nil)

// changed looks at the group in the name of a CRD, or the version and group in that of an APIService.
func (s *servedStore) changed(obj any, left bool) error {
	m, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	first, group, _ := strings.Cut(m.GetName(), ".")
	gv := schema.GroupVersion{Group: group}
	if p, ok := obj.(*metav1.PartialObjectMetadata); ok && p.Kind == "APIService" {
		gv.Version = first
	}
	s.served.look(gv, left || m.GetDeletionTimestamp() != nil)
	return nil
}

func (s *servedStore) Add(obj any) error    { return s.changed(obj, false) }
func (s *servedStore) Update(obj any) error { return s.changed(obj, false) }
func (s *servedStore) Delete(obj any) error { return s.changed(obj, true) }
func (s *servedStore) Resync() error        { return nil }

// Replace looks at everything: of what has happened since the list before, nothing is known.
func (s *servedStore) Replace([]any, string) error {
	s.served.look(schema.GroupVersion{}, false)
	return nil
}
