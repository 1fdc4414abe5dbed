// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package served

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/tarn-dev/tarn/internal/informer"
	"github.com/tarn-dev/tarn/internal/listwatch"
)

// UserAgent is the last word of the user agent of a Follower's requests. What looks at the requests of a program can tell them from
// those that the program asks for.
const UserAgent = "tarn-served"

// IsOwn reports whether a user agent is that of a Follower.
func IsOwn(agent string) bool { return strings.HasSuffix(agent, " "+UserAgent) }

// marked returns a client whose requests have the user agent of a Follower.
func marked(cfg *rest.Config, client *http.Client) *http.Client {
	own := *client
	if own.Transport == nil {
		own.Transport = http.DefaultTransport
	}
	own.Transport = &marking{own.Transport, cmp.Or(cfg.UserAgent, rest.DefaultKubernetesUserAgent()) + " " + UserAgent}
	return &own
}

type marking struct {
	next  http.RoundTripper
	agent string
}

// RoundTrip implements http.RoundTripper.
func (m *marking) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("User-Agent", m.agent)
	return m.next.RoundTrip(r)
}

// WrappedRoundTripper implements net.RoundTripperWrapper of apimachinery.
func (m *marking) WrappedRoundTripper() http.RoundTripper { return m.next }

// unknown is what the watches do not tell of. It is guarded by Follower.mu.
type unknown struct {
	crds        bool            // CRDs may not be watched now
	apiServices bool            // APIServices may not be watched now
	servers     map[string]bool // names of APIServices that may lead to another server
}

// mayChange reports whether another server may serve a version of a group, and be updated without a word.
func (u *unknown) mayChange(gv schema.GroupVersion) bool {
	return u.apiServices || u.servers[gv.Version+"."+gv.Group]
}

// watchCRDs watches the metadata of CRDs until ctx ends. While they may not be watched, discovery is polled, and
// the watch is tried again after each longestPoll.
func (f *Follower) watchCRDs(ctx context.Context) {
	kind := schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	for ctx.Err() == nil {
		err := f.watch(ctx, kind, "customresourcedefinitions", &f.unknown.crds)
		if ctx.Err() == nil && f.set(&f.unknown.crds, true) {
			f.all()
			f.logger.Info("CustomResourceDefinitions cannot be watched: until they can, the cache asks discovery for optional kinds, at most once a second and at least once a minute", "reason", err.Error())
		}
		pause(ctx, longestPoll)
	}
}

// watchAPIServices watches the metadata of APIServices until ctx ends. A server without any needs no more. With
// some that the program may not watch, what is not served is asked for every minute, and the watch is tried again.
func (f *Follower) watchAPIServices(ctx context.Context) {
	kind := schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}
	for ctx.Err() == nil {
		err := f.watch(ctx, kind, "apiservices", &f.unknown.apiServices)
		if apierrors.IsNotFound(err) {
			f.set(&f.unknown.apiServices, false)
			return
		}
		if ctx.Err() == nil && f.set(&f.unknown.apiServices, true) {
			f.all()
			f.logger.Info("APIServices cannot be watched: until they can, the cache asks discovery for optional kinds that are not served once a minute", "reason", err.Error())
		}
		pause(ctx, longestPoll)
	}
}

// set sets a flag of unknown, and reports whether that is new.
func (f *Follower) set(flag *bool, to bool) (changed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	changed, *flag = *flag != to, to
	return changed
}

// pause returns after about d, or when ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(wait.Jitter(d, 0.1))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// idleTimeout is how long a watch may bring nothing: API servers send a bookmark about every minute.
const idleTimeout = 3 * time.Minute

// watch lists and watches the metadata of what says which kinds are served, until ctx ends, or until that is not allowed or the kind
// is not served: then it returns the error. The times between two attempts are client-go's. A 401 ends nothing: tokens are rotated.
// Each list that is complete clears a flag that says that they cannot be watched.
func (f *Follower) watch(ctx context.Context, kind schema.GroupVersionKind, resource string, fails *bool) error {
	source, err := listwatch.Metadata(listwatch.Target{
		Config: f.config, HTTPClient: f.client, Kind: kind, Resource: kind.GroupVersion().WithResource(resource),
	})
	if err != nil {
		return err
	}
	var waits sync.WaitGroup
	defer waits.Wait()
	lw := listwatch.New(source, listwatch.Options{Bookmarks: true, Silence: idleTimeout, Cut: func(time.Duration) {}})
	reflector := toolscache.NewReflectorWithOptions(lw, nil, &store{f, fails}, toolscache.ReflectorOptions{
		TypeDescription: kind.Kind, Clock: informer.ClockUntil(ctx, &waits),
	})
	backoff := wait.Backoff{Duration: 800 * time.Millisecond, Cap: 30 * time.Second, Steps: 38, Factor: 2, Jitter: 1}
	_ = backoff.DelayWithReset(clock.RealClock{}, 2*time.Minute).Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		err = reflector.ListAndWatchWithContext(logr.NewContext(ctx, logr.Discard()))
		return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err), nil
	})
	return err
}

// store is where a Reflector writes what says which kinds are served. It keeps nothing of them but the names of those few
// APIServices that lead to another server.
type store struct {
	follower *Follower
	fails    *bool // is cleared by a complete list; guarded by Follower.mu
}

var _ toolscache.ReflectorStore = (*store)(nil)

func (s *store) Add(obj any) error    { return s.tell(obj, changed) }
func (s *store) Update(obj any) error { return s.tell(obj, changed) }
func (s *store) Delete(obj any) error { return s.tell(obj, deleted) }
func (s *store) Resync() error        { return nil }

// Replace asks for everything: of what has happened since the list before, nothing is known.
func (s *store) Replace(all []any, _ string) error {
	s.follower.set(s.fails, false)
	for i, obj := range all {
		m, err := meta.Accessor(obj)
		if err != nil || !isAPIService(obj) {
			break
		}
		s.follower.noteAPIService(m, changed, i == 0)
	}
	s.follower.all()
	return nil
}

// tell tells of the group in the name of a CRD, or of the version and group in that of an APIService. One that is being deleted
// serves what it has served, until it is gone. The APIServices that the server has made tell nothing that CRDs do not.
func (s *store) tell(obj any, what news) error {
	m, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	resource, group, _ := strings.Cut(m.GetName(), ".")
	gv := schema.GroupVersion{Group: group}
	if isAPIService(obj) {
		gv.Version, resource = resource, ""
		if !s.follower.noteAPIService(m, what, false) {
			return nil
		}
	}
	if what == deleted || m.GetDeletionTimestamp() == nil {
		s.follower.event(gv, resource, what)
	}
	return nil
}

func isAPIService(obj any) bool {
	p, ok := obj.(*metav1.PartialObjectMetadata)
	return ok && p.Kind == "APIService"
}

// all asks for all versions.
func (f *Follower) all() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for gv, v := range f.versions {
		for _, k := range v.kinds {
			k.pending, k.news = true, none
		}
		f.happenedLocked(gv, v)
	}
}

// event has versions asked for whose kinds a CRD or an APIService may serve that was created, changed or deleted. An APIService has
// a version and no resource.
func (f *Follower) event(of schema.GroupVersion, resource string, what news) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for gv, v := range f.versions {
		if gv.Group != of.Group || of.Version != "" && gv.Version != of.Version {
			continue
		}
		ask := false
		for _, k := range v.kinds {
			ask = k.hear(resource, what) || ask
		}
		if ask || what == deleted && v.failed {
			f.happenedLocked(gv, v)
		}
	}
}

// hear takes an event of a resource, or of all if that is empty, and reports whether it may have changed what is known of the kind.
// A kind that is absent may come with another resource than before.
func (k *kind) hear(resource string, what news) bool {
	if resource != "" && resource != k.resource && (what == deleted || k.state.Mapping != nil) {
		return false
	}
	k.news, k.lost = what, false
	k.pending = what == changed || k.state.served()
	return k.pending
}

// automanaged is the label of an APIService for which the server itself is responsible: AutoRegisterManagedLabel of
// k8s.io/kube-aggregator/pkg/controllers/autoregister.
const automanaged = "kube-aggregator.kubernetes.io/automanaged"

// noteAPIService notes whether an APIService may lead to another server, and reports that. The first one of a list comes in the place
// of all others. kube-apiserver labels those that it has made for its own kinds and for CRDs.
func (f *Follower) noteAPIService(m metav1.Object, what news, first bool) (leads bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if first || f.unknown.servers == nil {
		f.unknown.servers = map[string]bool{}
	}
	_, own := m.GetLabels()[automanaged]
	leads = !own || f.unknown.servers[m.GetName()]
	if own || what == deleted {
		delete(f.unknown.servers, m.GetName())
	} else {
		f.unknown.servers[m.GetName()] = true
	}
	return leads
}
