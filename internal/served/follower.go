// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package served

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
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
	"github.com/tarn-dev/tarn/internal/resolver"
)

const (
	// soon is the time from an event to its question: much may happen at the same time.
	soon = time.Millisecond
	// firstPause is the time after the first question. Each pause is twice as long as the one before, up to longestPause.
	firstPause   = 20 * time.Millisecond
	longestPause = time.Minute
	// mostQuestions is the number of questions after which nothing more is expected of an event: ten seconds in all.
	mostQuestions = 10
	// longestQuestion is how long a question waits for an answer, as client-go's discovery does.
	longestQuestion = 32 * time.Second
)

// UserAgent is the last word of the user agent of a Follower's requests. By it a test tells these requests from the program's own.
const UserAgent = "tarn-served"

// IsOwn reports whether a user agent is that of a Follower.
func IsOwn(agent string) bool { return strings.HasSuffix(agent, " "+UserAgent) }

// Follower tells when the API server begins and ends to serve kinds. Safe for concurrent use.
type Follower struct {
	discovery   *discovery.DiscoveryClient
	definitions []*definitions
	logger      logr.Logger

	mu      sync.Mutex                                                // guards what follows
	queue   workqueue.TypedRateLimitingInterface[schema.GroupVersion] // nil before Run
	kinds   map[schema.GroupVersionKind]*kind
	foreign sets.Set[schema.GroupVersion] // versions that another server may serve
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
		discovery: asks, logger: logger, kinds: map[schema.GroupVersionKind]*kind{}, foreign: sets.New[schema.GroupVersion](),
	}
	for _, of := range []schema.GroupVersionResource{crds, apiServices} {
		source, err := listwatch.Metadata(listwatch.Target{Config: cfg, HTTPClient: &own, Kind: of.GroupVersion().WithKind(of.Resource), Resource: of})
		if err != nil {
			return nil, fmt.Errorf("make the client of %s: %w", of.Resource, err)
		}
		f.definitions = append(f.definitions, &definitions{Follower: f, GroupVersionResource: of, Source: source})
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
		k = &kind{GroupVersionKind: gvk, now: State{Mapping: mapping}, last: cmp.Or(mapping, resolver.Guess(gvk)), tells: map[*func(State)]struct{}{}}
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

// ScopeOf returns the scope of a kind that is followed, as last known, and whether it is served. A kind that was never served is taken
// for a namespaced one.
func (f *Follower) ScopeOf(gvk schema.GroupVersionKind) (scope meta.RESTScopeName, served, followed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if k := f.kinds[gvk]; k != nil {
		return k.last.Scope.Name(), k.now.Mapping != nil, true
	}
	return "", false, false
}

// Refused says that the API server has refused a list or a watch of a kind, so that discovery may know that it is gone or away.
func (f *Follower) Refused(gvk schema.GroupVersionKind) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if k := f.kinds[gvk]; k != nil && k.now.Mapping != nil && f.queue != nil {
		f.queue.AddAfter(gvk.GroupVersion(), soon)
	}
}

// askLocked has a version asked for soon, and then at the pauses that follow an event.
func (f *Follower) askLocked(gv schema.GroupVersion) {
	if f.queue != nil {
		f.queue.Forget(gv)
		f.queue.AddAfter(gv, soon)
	}
}

// Run asks discovery, and tells followers, until ctx ends. It may be called once.
func (f *Follower) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	queue := f.open()
	context.AfterFunc(ctx, queue.ShutDown)
	for _, d := range f.definitions {
		running.Go(func() { d.watch(ctx) })
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

// open makes the queue, with the versions of the kinds that are followed already.
func (f *Follower) open() workqueue.TypedRateLimitingInterface[schema.GroupVersion] {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue = workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[schema.GroupVersion](firstPause, longestPause))
	for gvk := range f.kinds {
		f.queue.Add(gvk.GroupVersion())
	}
	return f.queue
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

// ask asks discovery for a version of a group, and tells the followers of its kinds.
func (f *Follower) ask(ctx context.Context, gv schema.GroupVersion) {
	ctx, cancel := context.WithTimeout(ctx, longestQuestion)
	defer cancel()
	resources, err := f.discovery.ServerResourcesForGroupVersionWithContext(ctx, gv.String())
	if apierrors.IsNotFound(err) {
		resources, err = &metav1.APIResourceList{}, nil
	}
	for _, tell := range f.answered(gv, resources, err) {
		tell()
	}
}

// answered takes an answer, and returns what is to be told without the lock. It has the version asked for again: while a kind is in
// doubt, when the next answer may agree, and otherwise after a pause, until answers show what has happened, mostQuestions at most, and
// then on for what is absent and may come without an event.
func (f *Follower) answered(gv schema.GroupVersion, resources *metav1.APIResourceList, err error) (tells []func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	kinds, doubt := f.of(gv), false
	for _, k := range kinds {
		if err != nil {
			k.now.Err, k.doubted = err, time.Time{}
		} else if now := k.in(resources); k.inDoubt(now) {
			doubt = true
			continue
		} else if k.see(now) {
			f.queue.Forget(gv)
		}
		if state := k.now; err == nil || resolver.MayBeAway(err) { // after another error, an answer follows
			for tell := range k.tells {
				tells = append(tells, func() { (*tell)(state) })
			}
		}
	}
	if doubt {
		f.queue.AddAfter(gv, agreement)
		return tells
	}
	ask, over := false, err == nil && f.queue.NumRequeues(gv)+1 >= mostQuestions
	for _, k := range kinds {
		if over && k.news != lost {
			k.news = none
		}
		ask = ask || err != nil || k.news != none || !k.now.cacheable() && f.blindTo(gv)
	}
	if ask {
		f.queue.AddRateLimited(gv)
	} else {
		f.queue.Forget(gv)
	}
	return tells
}
