// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package served

import (
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// firstPause is the time after the first answer that does not show what has happened. Each pause is twice as long as the one
	// before, and mostQuestions is the number of questions after which nothing more is expected: ten seconds in all.
	firstPause    = 20 * time.Millisecond
	mostQuestions = 10
	// agreement is the time between two answers that agree that a kind is absent.
	agreement = 100 * time.Millisecond
	// shortestPoll and longestPoll are the times between two questions where nothing tells of changes.
	shortestPoll = time.Second
	longestPoll  = time.Minute
)

// sight is what an answer says of the kinds of a version, of one of them at least.
type sight struct {
	changed  bool // it is in another state now
	pending  bool // no answer shows yet what has happened
	doubtful bool // another answer must agree that it is absent
	served   bool // it is served
	lacking  bool // it is not served so that it can be cached, and other kinds of the version are served
	lost     bool // it is absent, and no event says why
}

// answered notes an answer, and returns what is to be told without the lock. Events are those that had happened before the question.
func (f *Follower) answered(gv schema.GroupVersion, v *version, events int, resources *metav1.APIResourceList, err error) (tells []func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	seen, recovered := sight{}, v.failed && err == nil // the server may not know all of its kinds yet
	for _, k := range v.kinds {
		now := State{Err: err}
		k.pending = k.pending || recovered
		if err == nil && k.see(resources, &seen) {
			now = k.state
		} else if err == nil || !MayBeAway(err) {
			continue // another answer follows
		}
		for tell := range k.tells {
			tells = append(tells, func() { (*tell)(now) })
		}
	}
	if recovered || seen.changed {
		v.asked = 0
	}
	v.failed = err != nil
	if v.events == events { // otherwise a question is under way that knows what has happened
		if after := f.again(gv, v, seen, err); after > 0 {
			f.askLocked(gv, v, after)
		}
	}
	return tells
}

// see takes what an answer says of a kind, and reports whether that is certain.
func (k *kind) see(resources *metav1.APIResourceList, all *sight) (certain bool) {
	now, scope := stateIn(resources, k.GroupVersionKind)
	if scope != "" {
		k.scope, all.served = scope, true
	}
	all.lacking = all.lacking || now.Mapping == nil && len(resources.APIResources) > 0
	if now.Mapping == nil && k.state.Mapping != nil && k.news != deleted {
		if k.doubted.IsZero() {
			k.doubted = time.Now()
		}
		if time.Since(k.doubted) < agreement {
			all.doubtful = true
			return false
		}
	}
	k.doubted = time.Time{}
	if !now.equals(k.state) {
		all.changed, k.lost = true, !now.served() && k.news == none
		k.pending = k.pending && !now.served()
	}
	k.pending = k.pending && (now.served() || k.news != deleted)
	if k.state = now; now.Mapping != nil {
		k.resource = now.Mapping.Resource.Resource
	}
	all.pending, all.lost = all.pending || k.pending, all.lost || k.lost
	return true
}

// again returns the time until the next question, or zero if there is none.
func (f *Follower) again(gv schema.GroupVersion, v *version, seen sight, err error) time.Duration {
	if seen.doubtful {
		return agreement
	}
	v.asked++
	switch {
	case err != nil:
		return min(firstPause<<min(v.asked-1, 20), longestPoll)
	case f.unknown.crds:
		return wait.Jitter(min(shortestPoll<<min(v.asked-1, 10), longestPoll), 0.1)
	case v.asked < mostQuestions && seen.pending:
		return firstPause << (v.asked - 1)
	}
	for _, k := range v.kinds {
		k.pending, k.news = false, none
	}
	if seen.lost || f.unknown.apiServices && !seen.served || seen.lacking && f.unknown.mayChange(gv) {
		return wait.Jitter(longestPoll, 0.1)
	}
	return 0
}

func (s State) served() bool { return s.Mapping != nil || s.Verbs != nil }

func (s State) equals(other State) bool {
	if s.Mapping == nil || other.Mapping == nil {
		return s.Mapping == other.Mapping && s.served() == other.served() && slices.Equal(s.Verbs, other.Verbs)
	}
	return s.Mapping.Resource == other.Mapping.Resource && s.Mapping.Scope.Name() == other.Mapping.Scope.Name()
}

// stateIn returns what an answer says of a kind, and its scope if it is served. Of several resources of the kind it takes one that
// can be listed and watched.
func stateIn(resources *metav1.APIResourceList, gvk schema.GroupVersionKind) (found State, scope meta.RESTScopeName) {
	for _, r := range resources.APIResources {
		if r.Kind != gvk.Kind || strings.Contains(r.Name, "/") {
			continue
		}
		of := meta.RESTScopeRoot
		if r.Namespaced {
			of = meta.RESTScopeNamespace
		}
		if cacheable(&r) {
			return State{Mapping: MappingTo(gvk, r.Name, of)}, of.Name()
		}
		found.Verbs, scope = r.Verbs, of.Name()
	}
	return found, scope
}

// cacheable reports whether a resource can be listed and watched, as far as discovery says.
func cacheable(r *metav1.APIResource) bool {
	return len(r.Verbs) == 0 || slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "watch")
}

// MappingTo returns the mapping of a kind to a resource in its version of the group.
func MappingTo(gvk schema.GroupVersionKind, resource string, scope meta.RESTScope) *meta.RESTMapping {
	return &meta.RESTMapping{Resource: gvk.GroupVersion().WithResource(resource), GroupVersionKind: gvk, Scope: scope}
}

// MayBeAway reports whether err is the answer that a server behind the API server is away, or does not answer in time
// (503 or 504). That nobody answers the caller itself is another matter.
func MayBeAway(err error) bool {
	return apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err)
}
