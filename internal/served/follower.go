// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package served

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/client-go/util/workqueue"
)

// Follower tells when the API server begins and ends to serve kinds. Safe for concurrent use.
type Follower struct {
	config    *rest.Config
	client    *http.Client
	discovery *discovery.DiscoveryClient
	logger    logr.Logger
	begun     chan struct{} // closed by the first Follow
	begin     func()        // closes it, once

	mu       sync.Mutex                                            // guards what follows
	queue    workqueue.TypedDelayingInterface[schema.GroupVersion] // nil before Run
	versions map[schema.GroupVersion]*version
	blind    sets.Set[string]              // kinds of definitions that may not be watched now
	servers  sets.Set[schema.GroupVersion] // versions that another server may serve
}

// version is a version of a group with kinds that are followed.
type version struct {
	kinds  map[string]*kind
	next   time.Time // of the next question; zero if there is none
	asked  int       // questions since the newest event
	events int       // how often something has happened
	failed bool      // the last question had no answer
}

// kind is a kind that is followed.
type kind struct {
	schema.GroupVersionKind
	state    State
	scope    meta.RESTScopeName // as last known
	resource string             // as last known
	news     news               // that no answer shows yet
	doubted  time.Time          // of the first answer that lacks a kind that is served; zero if the newest one has it
	lost     bool               // it is absent, and no event says why
	tells    map[*func(State)]struct{}
}

// news is what has happened to a kind.
type news int

const (
	none     news = iota
	possible      // something may have: it is followed from now on, was refused, or events may be missing
	changed       // its definition was created or changed
	deleted       // its definition was deleted
)

// State is what is known of a kind. The zero value is that it is absent. A value does not change.
type State struct {
	// Mapping leads to the resource. It is nil if the kind is absent or cannot be cached.
	Mapping *meta.RESTMapping
	// Verbs are those of a kind that is served without list or watch.
	Verbs []string
	// Err is the answer that the kind cannot be served now (503, 504). The other fields are empty then.
	Err error
}

// New returns a Follower that asks the API server of cfg with client, when Run runs. Its requests have a [UserAgent] of their own.
func New(cfg *rest.Config, client *http.Client, logger logr.Logger) (*Follower, error) {
	own := *client
	own.Transport = transport.NewUserAgentRoundTripper(cmp.Or(cfg.UserAgent, rest.DefaultKubernetesUserAgent())+" "+UserAgent, cmp.Or(client.Transport, http.DefaultTransport))
	client = &own
	asks, err := discovery.NewDiscoveryClientForConfigAndClient(cfg, client)
	if err != nil {
		return nil, fmt.Errorf("make the client of discovery: %w", err)
	}
	begun := make(chan struct{})
	return &Follower{
		config: cfg, client: client, discovery: asks, logger: logger,
		begun: begun, begin: sync.OnceFunc(func() { close(begun) }), versions: map[schema.GroupVersion]*version{},
		blind: sets.New[string](),
	}, nil
}

// Follow has tell called with each answer about a kind that is certain, from the next one on until forget is called: by one
// goroutine at a time, without a lock. Mapping is what the caller knows; nil says that the kind is absent.
func (f *Follower) Follow(gvk schema.GroupVersionKind, mapping *meta.RESTMapping, tell func(State)) (forget func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	gv := gvk.GroupVersion()
	v := f.versions[gv]
	if v == nil {
		v = &version{kinds: map[string]*kind{}}
		f.versions[gv] = v
	}
	k := v.kinds[gvk.Kind]
	if k == nil {
		k = &kind{GroupVersionKind: gvk, state: State{Mapping: mapping}, scope: meta.RESTScopeNameNamespace, tells: map[*func(State)]struct{}{}}
		if mapping != nil {
			k.scope, k.resource = mapping.Scope.Name(), mapping.Resource.Resource
		}
		v.kinds[gvk.Kind] = k
	}
	k.tells[&tell] = struct{}{}
	k.news = max(k.news, possible)
	f.happenedLocked(gv, v)
	f.begin()
	return func() { f.forget(v, k, &tell) }
}

func (f *Follower) forget(v *version, k *kind, tell *func(State)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(k.tells, tell)
	if len(k.tells) == 0 && v.kinds[k.Kind] == k {
		delete(v.kinds, k.Kind)
	}
	if len(v.kinds) == 0 && f.versions[k.GroupVersion()] == v {
		delete(f.versions, k.GroupVersion())
	}
}

// ScopeOf returns the scope of a kind that is followed, as last known. A kind that was never served is taken for a namespaced one.
func (f *Follower) ScopeOf(gvk schema.GroupVersionKind) (scope meta.RESTScopeName, followed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if v := f.versions[gvk.GroupVersion()]; v != nil && v.kinds[gvk.Kind] != nil {
		return v.kinds[gvk.Kind].scope, true
	}
	return "", false
}

// Refused says that a list or watch of a kind has failed: with 404, so that the kind may be gone, or so that discovery may know more.
func (f *Follower) Refused(gvk schema.GroupVersionKind, gone bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	gv := gvk.GroupVersion()
	v := f.versions[gv]
	if v == nil || v.kinds[gvk.Kind] == nil {
		return
	}
	switch k := v.kinds[gvk.Kind]; {
	case gone && k.state.served():
		k.news = max(k.news, possible)
		f.happenedLocked(gv, v)
	case !gone && v.next.IsZero():
		f.askLocked(gv, v, 0)
	}
}

// happenedLocked has a version asked for from now on, until answers show what has happened.
func (f *Follower) happenedLocked(gv schema.GroupVersion, v *version) {
	v.asked = 0
	v.events++
	f.askLocked(gv, v, 0)
}

// askLocked has a version asked for after some time.
func (f *Follower) askLocked(gv schema.GroupVersion, v *version, after time.Duration) {
	v.next = time.Now().Add(after)
	if f.queue != nil {
		f.queue.AddAfter(gv, after)
	}
}

// Run asks discovery, and tells followers, until ctx ends. It may be called once.
func (f *Follower) Run(ctx context.Context) {
	select {
	case <-f.begun:
	case <-ctx.Done():
		return
	}
	var running sync.WaitGroup
	defer running.Wait()
	queue := f.open()
	stop := context.AfterFunc(ctx, queue.ShutDown)
	defer stop()
	for _, of := range []schema.GroupVersionResource{crds, apiServices} {
		running.Go(func() { (&definitions{f, of}).watch(ctx) })
	}
	for {
		gv, ended := queue.Get()
		if ended {
			return
		}
		running.Go(func() { // the queue has no version twice at a time
			defer queue.Done(gv)
			f.ask(ctx, gv)
		})
	}
}

// open makes the queue, with all that was to be asked before.
func (f *Follower) open() workqueue.TypedDelayingInterface[schema.GroupVersion] {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue = workqueue.NewTypedDelayingQueue[schema.GroupVersion]()
	for gv := range f.versions {
		f.queue.Add(gv)
	}
	return f.queue
}

// longestQuestion is how long a question waits for an answer, as client-go's discovery does.
const longestQuestion = 32 * time.Second

// ask asks discovery for a version of a group, if that is due, and tells the followers of its kinds.
func (f *Follower) ask(ctx context.Context, gv schema.GroupVersion) {
	v, events := f.due(gv)
	if v == nil {
		return
	}
	answered, cancel := context.WithTimeout(ctx, longestQuestion)
	resources, err := f.discovery.ServerResourcesForGroupVersionWithContext(answered, gv.String())
	cancel()
	if ctx.Err() != nil {
		return
	}
	if apierrors.IsNotFound(err) {
		resources, err = &metav1.APIResourceList{}, nil
	}
	for _, tell := range f.answered(gv, v, events, resources, err) {
		tell()
	}
}

// due returns a version if it is to be asked for now, and how often something has happened there. The queue may have it earlier:
// it keeps the earliest of several times.
func (f *Follower) due(gv schema.GroupVersion) (v *version, events int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v = f.versions[gv]
	if v == nil || v.next.IsZero() {
		return nil, 0
	}
	if early := time.Until(v.next); early > 0 {
		f.queue.AddAfter(gv, early)
		return nil, 0
	}
	v.next = time.Time{}
	return v, v.events
}
