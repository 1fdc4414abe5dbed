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
)

// Served tells entries of optional kinds when the API server begins and ends to serve their kinds.
// All maps of a cache share one. It watches the metadata of CRDs and APIServices, and asks discovery
// for the groups of which one has changed. While it may not watch CRDs, it asks discovery again and
// again, after longer and longer. Without optional kinds it does nothing. Safe for concurrent use.
//
// Each version of a group is asked for by a goroutine of its own, one at a time, so that a server that does
// not answer for one is waited for by nobody else. Entries are told without the lock, by that goroutine.
type Served struct {
	config    *rest.Config
	client    *http.Client
	discovery *discovery.DiscoveryClient
	logger    logr.Logger

	mu     sync.Mutex // guards what follows
	groups map[schema.GroupVersion]*servedGroup
	scopes map[schema.GroupVersionKind]meta.RESTScopeName // of kinds that are followed, as last known
	polls  bool                                           // CRDs may not be watched now
	blind  bool                                           // APIServices may not be watched now
	others map[string]struct{}                            // names of APIServices that may lead to another server
	wake   chan struct{}                                  // has one element if there is something to do
}

// servedGroup is a version of a group with optional kinds.
type servedGroup struct {
	entries map[*MapEntry]struct{}
	at      time.Time // of the next look; zero if there is none
	looks   int       // since something has happened
	events  int       // how often something has happened
	asking  bool      // a look is under way
	failed  bool      // the last look had no answer
	left    bool      // all that has happened since the last look that was expected is that something went

	// gone has the resources whose CRD was deleted since the last look that was certain, and the empty string if an
	// APIService was. It is replaced, and never changed.
	gone map[string]bool
}

const (
	// firstLook is how long after the first look the second one follows, and lastLook the number of
	// looks after which nothing more is expected: discovery may be some seconds behind.
	firstLook = 10 * time.Millisecond
	lastLook  = 10
	// secondLook is how long after an answer that lacks a kind that is cached the next one is asked for.
	secondLook = 100 * time.Millisecond
	// shortestPoll and longestPoll are the times between two looks where nothing tells of changes.
	shortestPoll = time.Second
	longestPoll  = time.Minute
	// longestAsk is how long a look waits for an answer, as client-go's discovery does.
	longestAsk = 32 * time.Second
)

// NewServed returns what asks the API server of cfg.
func NewServed(cfg *rest.Config, client *http.Client, logger logr.Logger) (*Served, error) {
	asks, err := discovery.NewDiscoveryClientForConfigAndClient(cfg, client)
	return &Served{
		config: cfg, client: client, discovery: asks, logger: logger,
		groups: map[schema.GroupVersion]*servedGroup{}, scopes: map[schema.GroupVersionKind]meta.RESTScopeName{}, others: map[string]struct{}{}, wake: make(chan struct{}, 1),
	}, err
}

// ScopeOf returns the scope of an optional kind that is followed, as last known. A kind that was not served
// since it is followed is taken for a namespaced one.
func (s *Served) ScopeOf(gvk schema.GroupVersionKind) (scope meta.RESTScopeName, followed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	scope, followed = s.scopes[gvk]
	return scope, followed
}

// follow tells an entry from now on, until forget. The scope is that of its kind, as far as the entry knows.
func (s *Served) follow(e *MapEntry, scope meta.RESTScopeName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.scopes[e.key.GroupVersionKind]; !known { // what discovery has said is newer, and a look follows
		s.scopes[e.key.GroupVersionKind] = scope
	}
	gv := e.key.GroupVersion()
	if s.groups[gv] == nil {
		s.groups[gv] = &servedGroup{entries: map[*MapEntry]struct{}{}}
	}
	s.groups[gv].entries[e] = struct{}{}
	s.lookLocked(gv, false)
}

// forget tells an entry no more. Of a kind that no other entry has, it knows nothing any more.
func (s *Served) forget(e *MapEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gv, gvk := e.key.GroupVersion(), e.key.GroupVersionKind
	group := s.groups[gv]
	if group == nil {
		return
	}
	delete(group.entries, e)
	if len(group.entries) == 0 {
		delete(s.groups, gv)
	}
	for other := range group.entries {
		if other.key.GroupVersionKind == gvk {
			return
		}
	}
	delete(s.scopes, gvk)
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
	if !left {
		group.gone = nil
	}
	group.at, group.looks = time.Now(), 0
	group.events++
	s.wakeUp()
}

// lookOnce looks at a version of a group once, unless it is about to be looked at.
func (s *Served) lookOnce(gv schema.GroupVersion) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if group := s.groups[gv]; group != nil && group.at.IsZero() {
		group.at, group.looks = time.Now(), lastLook
		s.wakeUp()
	}
}

func (s *Served) wakeUp() {
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
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { s.watchCRDs(ctx) })
	running.Go(func() { s.watchAPIServices(ctx) })
	for ctx.Err() == nil {
		gv, group, due := s.next()
		if group != nil {
			running.Go(func() { s.ask(ctx, gv, group) })
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

// next returns the version of a group that is to be looked at now, or nil and in how long there is one.
func (s *Served) next() (gv schema.GroupVersion, now *servedGroup, due time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	due = time.Hour // somebody wakes
	for version, group := range s.groups {
		if group.asking || group.at.IsZero() {
			continue
		}
		if time.Until(group.at) <= 0 {
			group.asking = true
			return version, group, 0
		}
		due = min(due, time.Until(group.at))
	}
	return gv, nil, due
}

// ask asks discovery for a version of a group, and tells its entries.
func (s *Served) ask(ctx context.Context, gv schema.GroupVersion, group *servedGroup) {
	entries, events, gone := s.begin(group)
	answered, cancel := context.WithTimeout(ctx, longestAsk)
	resources, err := s.discovery.ServerResourcesForGroupVersionWithContext(answered, gv.String())
	cancel()
	if apierrors.IsNotFound(err) {
		resources, err = &metav1.APIResourceList{}, nil
	}
	seen := outcome{}
	switch {
	case err == nil:
		seen = s.tell(entries, resources, gone)
	case mayBeAway(err):
		for _, e := range entries {
			e.optional().unavailable(err, s.logger)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	group.asking = false
	s.wakeUp()
	if group.events != events {
		return // it has happened since the question, and is looked at
	}
	if err == nil && !seen.doubtful {
		group.gone = nil
	}
	if seen.doubtful {
		group.at = time.Now().Add(secondLook)
		return
	}
	if seen.changed || group.failed && err == nil { // a server that answers again may not know all of its kinds yet
		group.looks = 0
	}
	group.failed = err != nil
	blind := s.blind && !seen.served || seen.lacks && s.elsewhere(gv) || seen.unexplained
	group.again(seen.asExpected(group.left), err != nil, s.polls, blind)
}

// elsewhere says whether another server may serve a version of a group, and be updated without a word. The caller holds mu.
func (s *Served) elsewhere(gv schema.GroupVersion) bool {
	_, other := s.others[gv.Version+"."+gv.Group]
	return other || s.blind
}

// begin returns the entries of a version of a group, how often something has happened there, and what was deleted.
func (s *Served) begin(group *servedGroup) (entries []*MapEntry, events int, gone map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(group.entries)), group.events, group.gone
}

// deleted notes that the CRD of a resource was deleted, or an APIService if that is empty, and looks.
func (s *Served) deleted(changed schema.GroupVersion, resource string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for gv, group := range s.groups {
		if gv.Group == changed.Group && (changed.Version == "" || gv.Version == changed.Version) {
			gone := map[string]bool{resource: true}
			maps.Copy(gone, group.gone)
			s.lookLocked(gv, true)
			group.gone = gone
		}
	}
}

// outcome is what a look has led to in at least one of the entries.
type outcome struct {
	changed, served bool
	doubtful        bool // another look must confirm that a kind has gone
	lacks           bool // the version of the group is served without a kind, or with one that cannot be cached
	absent          bool // a kind is not served
	unexplained     bool // a kind has gone though nothing was deleted, as far as is known: its server may just have started
}

// asExpected reports whether nothing more is expected than a look has seen: where something went, that something
// has gone, or that nothing is left; otherwise a change, and no kind that may still come.
func (o outcome) asExpected(left bool) bool {
	if left {
		return o.changed || !o.served
	}
	return o.changed && !o.absent
}

// tell tells entries what is served.
func (s *Served) tell(entries []*MapEntry, resources *metav1.APIResourceList, gone map[string]bool) (all outcome) {
	for _, e := range entries {
		seen, scope := seenIn(resources, e.key)
		seen.gone = gone
		if scope != nil {
			s.noteScope(e.key.GroupVersionKind, scope.Name())
			all.served = true
		}
		changed, doubtful := e.optional().served(seen, s.logger)
		all.changed, all.doubtful = all.changed || changed, all.doubtful || doubtful
		absent := seen.mapping == nil && seen.unfit == nil
		all.absent = all.absent || absent
		all.unexplained = all.unexplained || absent && changed && len(gone) == 0
		all.lacks = all.lacks || seen.mapping == nil && len(resources.APIResources) > 0
	}
	return all
}

// noteScope notes the scope of a kind, unless that is not followed any more.
func (s *Served) noteScope(gvk schema.GroupVersionKind, scope meta.RESTScopeName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, followed := s.scopes[gvk]; followed {
		s.scopes[gvk] = scope
	}
}

// again sets when to look next. If a look has found what is expected, nothing more is: a change or, after
// something went, that nothing is served. Blind is that nothing may tell when what is not served comes: a server
// behind an APIService may be updated without a change of that.
func (g *servedGroup) again(expected, failed, polls, blind bool) {
	g.looks++
	switch {
	case failed:
		g.at = time.Now().Add(min(firstLook<<min(g.looks, 20), longestPoll))
	case polls:
		g.at = time.Now().Add(wait.Jitter(min(shortestPoll<<min(g.looks-1, 10), longestPoll), 0.1))
	case blind && (expected || g.looks >= lastLook):
		g.at, g.looks = time.Now().Add(wait.Jitter(longestPoll, 0.1)), lastLook // one look, and no others soon after it
	case expected || g.looks >= lastLook:
		g.at = time.Time{}
	default:
		g.at = time.Now().Add(firstLook << g.looks)
	}
}

// seenIn returns what discovery says of a kind. Of several resources of the kind it takes one that can be listed
// and watched.
func seenIn(resources *metav1.APIResourceList, key Key) (of sight, scope meta.RESTScope) {
	for _, r := range resources.APIResources {
		if r.Kind != key.Kind || strings.Contains(r.Name, "/") {
			continue
		}
		scope = meta.RESTScopeRoot
		if r.Namespaced {
			scope = meta.RESTScopeNamespace
		}
		if cacheable(&r) {
			return sight{mapping: mappingTo(key, r.Name, scope)}, scope
		}
		of.unfit = &verbsError{key, r.Verbs}
	}
	return of, scope
}
