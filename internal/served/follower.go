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

const (
	// firstPause is the time after the first question. Each pause is twice as long as the one before, up to longestPause.
	firstPause   = 20 * time.Millisecond
	longestPause = time.Minute
	// mostQuestions is the number of questions after which nothing more is expected of an event: ten seconds in all.
	mostQuestions = 10
	// agreement is the time between two answers that agree that a kind is absent.
	agreement = 100 * time.Millisecond
	// longestQuestion is how long a question waits for an answer, as client-go's discovery does.
	longestQuestion = 32 * time.Second
)

// Follower tells when the API server begins and ends to serve kinds. Safe for concurrent use.
type Follower struct {
	config    *rest.Config
	client    *http.Client
	discovery *discovery.DiscoveryClient
	logger    logr.Logger

	mu       sync.Mutex                                                // guards what follows
	queue    workqueue.TypedRateLimitingInterface[schema.GroupVersion] // of versions to be asked for; nil before Run
	versions map[schema.GroupVersion]*version
	blind    sets.Set[string]              // resources of definitions that may not be watched now
	foreign  sets.Set[schema.GroupVersion] // versions that another server may serve
}

// version is a version of a group with kinds that are followed.
type version struct {
	kinds  map[string]*kind
	due    bool // it is to be asked for
	failed bool // the last question had no answer
}

// kind is a kind that is followed.
type kind struct {
	schema.GroupVersionKind
	now   answer
	last  answer // when the kind was served
	news  news   // that no answer shows yet
	lost  bool   // it is absent, and no event says why
	tells map[*func(State)]struct{}
}

// news is what has happened to a kind.
type news int

const (
	none     news = iota
	possible      // something may have: it is followed from now on, or events may be missing
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
	asks, err := discovery.NewDiscoveryClientForConfigAndClient(cfg, &own)
	if err != nil {
		return nil, fmt.Errorf("make the client of discovery: %w", err)
	}
	return &Follower{
		config: cfg, client: &own, discovery: asks, logger: logger,
		versions: map[schema.GroupVersion]*version{}, blind: sets.New[string](), foreign: sets.New[schema.GroupVersion](),
	}, nil
}

// Follow has tell called with each answer about a kind that is certain, from the next one on until forget is called: by one
// goroutine at a time, without a lock. Mapping is what the caller knows; nil says that the kind is absent.
func (f *Follower) Follow(gvk schema.GroupVersionKind, mapping *meta.RESTMapping, tell func(State)) (forget func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := f.versions[gvk.GroupVersion()]
	if v == nil {
		v = &version{kinds: map[string]*kind{}}
		f.versions[gvk.GroupVersion()] = v
	}
	k := v.kinds[gvk.Kind]
	if k == nil {
		k = &kind{GroupVersionKind: gvk, last: answer{scope: meta.RESTScopeNameNamespace}, tells: map[*func(State)]struct{}{}}
		if mapping != nil {
			k.now = answer{resource: mapping.Resource.Resource, scope: mapping.Scope.Name()}
			k.last = k.now
		}
		v.kinds[gvk.Kind] = k
	}
	k.tells[&tell] = struct{}{}
	k.news = max(k.news, possible)
	f.askLocked(gvk.GroupVersion(), v)
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
		if f.queue != nil {
			f.queue.Forget(k.GroupVersion())
		}
	}
}

// ScopeOf returns the scope of a kind that is followed, as last known. A kind that was never served is taken for a namespaced one.
func (f *Follower) ScopeOf(gvk schema.GroupVersionKind) (scope meta.RESTScopeName, followed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if v := f.versions[gvk.GroupVersion()]; v != nil && v.kinds[gvk.Kind] != nil {
		return v.kinds[gvk.Kind].last.scope, true
	}
	return "", false
}

// Refused says that the API server has refused a list or a watch of a kind, so that discovery may know more.
func (f *Follower) Refused(gvk schema.GroupVersionKind) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if v := f.versions[gvk.GroupVersion()]; v != nil && f.queue != nil {
		v.due = true
		f.queue.Add(gvk.GroupVersion())
	}
}

// askLocked has a version asked for now, and then at the pauses that follow an event.
func (f *Follower) askLocked(gv schema.GroupVersion, v *version) {
	v.due = true
	if f.queue != nil {
		f.queue.Forget(gv)
		f.queue.Add(gv)
	}
}

// Run asks discovery, and tells followers, until ctx ends. It may be called once.
func (f *Follower) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	queue := f.open()
	context.AfterFunc(ctx, queue.ShutDown)
	watch := sync.OnceFunc(func() {
		for _, of := range []schema.GroupVersionResource{crds, apiServices} {
			running.Go(func() { (&definitions{Follower: f, GroupVersionResource: of}).watch(ctx) })
		}
	})
	for {
		gv, ended := queue.Get()
		if ended {
			return
		}
		watch()
		running.Go(func() { // the queue has no version twice at a time
			defer queue.Done(gv)
			if f.due(gv) {
				f.ask(ctx, gv)
			}
		})
	}
}

// open makes the queue, with all that was to be asked before.
func (f *Follower) open() workqueue.TypedRateLimitingInterface[schema.GroupVersion] {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue = workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[schema.GroupVersion](firstPause, longestPause))
	for gv := range f.versions {
		f.queue.Add(gv)
	}
	return f.queue
}

// due takes a version out of those to be asked for, and reports whether it was one: the queue may have it once more.
func (f *Follower) due(gv schema.GroupVersion) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := f.versions[gv]
	due := v != nil && v.due
	if due {
		v.due = false
	}
	return due
}

// ask asks discovery for a version of a group until two answers agree on what is absent, and tells the followers of its kinds.
func (f *Follower) ask(ctx context.Context, gv schema.GroupVersion) {
	for doubted := sets.New[string](); ctx.Err() == nil; {
		answered, cancel := context.WithTimeout(ctx, longestQuestion)
		resources, err := f.discovery.ServerResourcesForGroupVersionWithContext(answered, gv.String())
		cancel()
		if apierrors.IsNotFound(err) {
			resources, err = &metav1.APIResourceList{}, nil
		}
		more, tells := f.answered(gv, resources, err, doubted)
		for _, tell := range tells {
			tell()
		}
		if doubted = more; doubted == nil {
			return
		}
		select {
		case <-time.After(agreement):
		case <-ctx.Done():
		}
	}
}

// answered takes an answer, and returns what is to be told without the lock. If kinds are in doubt that were not so before, it returns
// these instead, and the next answer decides.
func (f *Follower) answered(gv schema.GroupVersion, resources *metav1.APIResourceList, err error, before sets.Set[string]) (doubted sets.Set[string], tells []func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := f.versions[gv]
	if v == nil {
		return nil, nil
	}
	if err == nil {
		if doubted = v.doubted(resources); !before.IsSuperset(doubted) {
			return doubted, nil
		}
	}
	recovered := v.failed && err == nil
	if v.failed = err != nil; recovered {
		f.queue.Forget(gv)
	}
	for _, k := range v.kinds {
		state := State{Err: err}
		if recovered {
			k.news = max(k.news, possible) // the server may not know all of its kinds yet
		}
		if err == nil {
			if k.see(answerFor(k.Kind, resources)) {
				f.queue.Forget(gv)
			}
			state = k.state()
		} else if !MayBeAway(err) {
			continue // another answer follows
		}
		for tell := range k.tells {
			tells = append(tells, func() { (*tell)(state) })
		}
	}
	f.askOnLocked(gv, v)
	return nil, tells
}

// askOnLocked has a version asked for again after a pause: until answers show what has happened, mostQuestions at most, and then on for
// what is absent and may come without an event.
func (f *Follower) askOnLocked(gv schema.GroupVersion, v *version) {
	ask, over := v.failed, f.queue.NumRequeues(gv)+1 >= mostQuestions
	for _, k := range v.kinds {
		if over && !v.failed {
			k.news = none
		}
		ask = ask || k.news != none || !k.now.cacheable() && (k.lost || f.blindTo(gv))
	}
	if ask {
		v.due = true
		f.queue.AddRateLimited(gv)
	}
}
