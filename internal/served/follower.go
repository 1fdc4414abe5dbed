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

	"github.com/tarn-dev/tarn/internal/listwatch"
	"github.com/tarn-dev/tarn/internal/signal"
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
	discovery   *discovery.DiscoveryClient
	definitions []*definitions
	logger      logr.Logger
	heard       signal.Broadcast // of events

	mu      sync.Mutex                                                // guards what follows
	queue   workqueue.TypedRateLimitingInterface[schema.GroupVersion] // nil before Run
	due     sets.Set[schema.GroupVersion]                             // versions that are to be asked for; the queue may have others, from before
	kinds   map[schema.GroupVersionKind]*kind
	blind   sets.Set[string]              // resources of definitions that may not be watched now
	foreign sets.Set[schema.GroupVersion] // versions that another server may serve
}

// kind is a kind that is followed.
type kind struct {
	schema.GroupVersionKind
	now    State
	last   *meta.RESTMapping // where it was served last; a guess if it was not
	news   news              // that no answer shows yet
	lost   bool              // it is absent, and no event says why
	failed bool              // the last question had no answer
	tells  map[*func(State)]struct{}
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
	f := &Follower{
		discovery: asks, logger: logger, due: sets.New[schema.GroupVersion](), kinds: map[schema.GroupVersionKind]*kind{},
		blind: sets.New[string](), foreign: sets.New[schema.GroupVersion](),
	}
	for _, of := range []schema.GroupVersionResource{crds, apiServices} {
		source, err := listwatch.Metadata(listwatch.Target{Config: cfg, HTTPClient: &own, Kind: of.GroupVersion().WithKind(of.Resource), Resource: of})
		if err != nil {
			return nil, fmt.Errorf("make the client of %s: %w", of.Resource, err)
		}
		f.definitions = append(f.definitions, &definitions{f, of, source})
	}
	return f, nil
}

// Follow has tell called with each answer about a kind that is certain, from the next one on until forget is called: by one
// goroutine at a time, without a lock. Mapping is what the caller knows; nil says that the kind is absent.
func (f *Follower) Follow(gvk schema.GroupVersionKind, mapping *meta.RESTMapping, tell func(State)) (forget func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	k := f.kinds[gvk]
	if k == nil {
		k = &kind{GroupVersionKind: gvk, now: State{Mapping: mapping}, last: cmp.Or(mapping, Guess(gvk)), tells: map[*func(State)]struct{}{}}
		f.kinds[gvk] = k
	}
	k.tells[&tell] = struct{}{}
	k.news = max(k.news, possible)
	f.askLocked(gvk.GroupVersion())
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if delete(k.tells, &tell); len(k.tells) == 0 && f.kinds[gvk] == k {
			delete(f.kinds, gvk)
		}
	}
}

// ScopeOf returns the scope of a kind that is followed, as last known. A kind that was never served is taken for a namespaced one.
func (f *Follower) ScopeOf(gvk schema.GroupVersionKind) (scope meta.RESTScopeName, followed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if k := f.kinds[gvk]; k != nil {
		return k.last.Scope.Name(), true
	}
	return "", false
}

// Refused says that the API server has refused a list or a watch of a kind, so that discovery may know that it is gone or away.
func (f *Follower) Refused(gvk schema.GroupVersionKind) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if k := f.kinds[gvk]; k != nil && k.now.served() && f.queue != nil {
		f.due.Insert(gvk.GroupVersion())
		f.queue.Add(gvk.GroupVersion())
	}
}

// askLocked has a version asked for now, and then at the pauses that follow an event.
func (f *Follower) askLocked(gv schema.GroupVersion) {
	f.heard.Notify()
	f.due.Insert(gv)
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
		for _, d := range f.definitions {
			running.Go(func() { d.watch(ctx) })
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
			if f.isDue(gv) {
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
	for gv := range f.due {
		f.queue.Add(gv)
	}
	return f.queue
}

// isDue reports whether a version is due, and notes that it is asked for.
func (f *Follower) isDue(gv schema.GroupVersion) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	due := f.due.Has(gv) && len(f.of(gv)) > 0
	if f.due.Delete(gv); !due {
		f.queue.Forget(gv)
	}
	return due
}

// of returns the kinds of a version that are followed. Callers hold f.mu.
func (f *Follower) of(gv schema.GroupVersion) (kinds []*kind) {
	for _, k := range f.kinds {
		if k.GroupVersion() == gv {
			kinds = append(kinds, k)
		}
	}
	return kinds
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
		f.awaitAgreement(ctx, gv, resources)
	}
}

// awaitAgreement waits until another answer can agree with resources, or events say that nothing is in doubt.
func (f *Follower) awaitAgreement(ctx context.Context, gv schema.GroupVersion, resources *metav1.APIResourceList) {
	ctx, cancel := context.WithTimeout(ctx, agreement)
	defer cancel()
	_ = f.heard.Until(ctx, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(inDoubt(f.of(gv), resources)) == 0
	})
}

// answered takes an answer, and returns what is to be told without the lock. If kinds are in doubt that were not so before, it returns
// these instead, and the next answer decides. It has the version asked for again after a pause: until answers show what has happened,
// mostQuestions at most, and then on for what is absent and may come without an event.
func (f *Follower) answered(gv schema.GroupVersion, resources *metav1.APIResourceList, err error, before sets.Set[string]) (doubted sets.Set[string], tells []func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	kinds, ask := f.of(gv), err != nil
	if err == nil {
		if doubted = inDoubt(kinds, resources); !before.IsSuperset(doubted) {
			return doubted, nil
		}
	}
	for _, k := range kinds {
		state := State{Err: err}
		switch {
		case err == nil:
			if k.see(resources) {
				f.queue.Forget(gv)
			}
			state = k.now
		case !MayBeAway(err):
			continue // another answer follows
		}
		for tell := range k.tells {
			tells = append(tells, func() { (*tell)(state) })
		}
	}
	over := f.queue.NumRequeues(gv)+1 >= mostQuestions
	for _, k := range kinds {
		if k.failed = err != nil; over && !k.failed {
			k.news = none
		}
		ask = ask || k.news != none || k.now.Mapping == nil && (k.lost || f.blindTo(gv))
	}
	if ask && len(kinds) > 0 {
		f.due.Insert(gv)
		f.queue.AddRateLimited(gv)
	} else {
		f.queue.Forget(gv)
	}
	return nil, tells
}
