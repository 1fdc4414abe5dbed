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
	// before, up to longestPause.
	firstPause   = 20 * time.Millisecond
	longestPause = time.Minute
	// mostQuestions is the number of questions after which nothing more is expected of an event: ten seconds in all.
	mostQuestions = 10
	// agreement is the time between two answers that agree that a kind is absent.
	agreement = 100 * time.Millisecond
)

// answered notes an answer, and returns what is to be told without the lock. Events is the number of events before the question.
func (f *Follower) answered(gv schema.GroupVersion, v *version, events int, resources *metav1.APIResourceList, err error) (tells []func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	recovered := v.failed && err == nil
	if v.failed = err != nil; recovered {
		v.asked = 0
	}
	for _, k := range v.kinds {
		if recovered {
			k.news = max(k.news, possible) // the server may not know all of its kinds yet
		}
		now := State{Err: err}
		if err == nil && k.see(resources, v) {
			now = k.state
		} else if err == nil || !MayBeAway(err) {
			continue // another answer follows
		}
		for tell := range k.tells {
			tells = append(tells, func() { (*tell)(now) })
		}
	}
	if v.events == events { // otherwise a question is under way that knows what has happened
		if after := f.again(gv, v); after > 0 {
			f.askLocked(gv, v, after)
		}
	}
	return tells
}

// see takes what an answer says of a kind, and reports whether that is certain.
func (k *kind) see(resources *metav1.APIResourceList, v *version) (certain bool) {
	now, scope := stateIn(resources, k.GroupVersionKind)
	if now.Mapping == nil && k.state.Mapping != nil && k.news != deleted {
		if k.doubted.IsZero() {
			k.doubted = time.Now()
		}
		if time.Since(k.doubted) < agreement {
			return false
		}
	}
	k.doubted = time.Time{}
	differs := !now.equals(k.state)
	if differs {
		v.asked, k.lost = 0, !now.served() && k.news < changed
	}
	if k.news == deleted && !now.served() || differs && now.served() {
		k.news = none // the answer shows what has happened
	}
	if k.state = now; now.Mapping != nil {
		k.resource = now.Mapping.Resource.Resource
	}
	if scope != "" {
		k.scope = scope
	}
	return true
}

// again returns the time until the next question, or zero if there is none. After an event it asks until answers show what has
// happened, mostQuestions at most. Then it asks on for what is absent and may come without an event.
func (f *Follower) again(gv schema.GroupVersion, v *version) time.Duration {
	v.asked++
	ask := v.failed
	for _, k := range v.kinds {
		if !v.failed && !k.doubted.IsZero() {
			return agreement
		}
		if !v.failed && v.asked >= mostQuestions {
			k.news = none
		}
		ask = ask || k.news != none || k.state.Mapping == nil && (k.lost || f.blindTo(gv))
	}
	if !ask {
		return 0
	}
	return wait.Jitter(min(firstPause<<min(v.asked-1, 20), longestPause), 0.1)
}

func (s State) served() bool { return s.Mapping != nil || s.Verbs != nil }

func (s State) equals(other State) bool {
	if s.Mapping == nil || other.Mapping == nil {
		return s.Mapping == other.Mapping && s.served() == other.served() && slices.Equal(s.Verbs, other.Verbs)
	}
	return s.Mapping.Resource == other.Mapping.Resource && s.Mapping.Scope.Name() == other.Mapping.Scope.Name()
}

// stateIn returns what an answer says of a kind, and its scope if it is served. If the kind has several resources, it takes one
// that can be listed and watched.
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
// (503 or 504). It is false if the API server itself does not answer.
func MayBeAway(err error) bool {
	return apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err)
}
