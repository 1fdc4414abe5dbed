// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package served

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarn-dev/tarn/internal/resolver"
)

// agreement is the time between two answers that agree that a kind is absent.
const agreement = 100 * time.Millisecond

// kind is a kind that is followed.
type kind struct {
	schema.GroupVersionKind
	now     State
	last    *meta.RESTMapping // where it was served last; a guess if it was not
	news    news
	doubted time.Time // the first answer that lacks it; zero if there is none, or another one agrees
	tells   map[*func(State)]struct{}
}

// news is what has happened to a kind, and no answer shows yet.
type news int

const (
	none     news = iota
	possible      // something may have: it is followed from now on, or events may be missing
	lost          // it went without an event, and may come without one
	changed       // its definition was created or changed
	deleted       // its definition was deleted
)

// State is what is known of a kind. The zero value is that it is absent. A value does not change.
type State struct {
	// Mapping leads to the resource. It is nil if the kind is absent.
	Mapping *meta.RESTMapping
	// Verbs are those of a kind that is served without list or watch, and cannot be cached. They are nil for other kinds.
	Verbs []string
	// Err is the answer that the kind cannot be served now (503, 504). The other fields are of the answer before.
	Err error
}

func (s State) cacheable() bool { return s.Mapping != nil && s.Verbs == nil }

// in returns what an answer says of the kind. If the kind has several resources, that is one that can be cached.
func (k *kind) in(resources *metav1.APIResourceList) (now State) {
	for _, r := range resources.APIResources {
		if r.Kind != k.Kind || strings.Contains(r.Name, "/") {
			continue
		}
		scope := meta.RESTScopeRoot
		if r.Namespaced {
			scope = meta.RESTScopeNamespace
		}
		now = State{Mapping: resolver.MappingTo(k.GroupVersionKind, r.Name, scope), Verbs: r.Verbs}
		if len(r.Verbs) == 0 || slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "watch") {
			now.Verbs = nil
			break
		}
	}
	return now
}

// inDoubt reports whether an answer without the kind, which could be cached until now, waits for another one that agrees. An event that
// has told of the deletion agrees too.
func (k *kind) inDoubt(now State) bool {
	if now.cacheable() || !k.now.cacheable() || k.news == deleted {
		return false
	}
	if k.doubted.IsZero() {
		k.doubted = time.Now()
	}
	return time.Since(k.doubted) < agreement
}

// see takes what an answer says, and reports whether that is news. A server that has failed may not know all of its kinds yet.
func (k *kind) see(now State) (news bool) {
	before, failed := k.now, k.now.Err != nil
	before.Err = nil
	differs := !reflect.DeepEqual(now, before)
	switch {
	case differs && now.Mapping != nil, k.news == deleted && now.Mapping == nil:
		k.news = none // the answer shows what has happened
	case differs && k.news < changed:
		k.news = lost
	case failed:
		k.news = max(k.news, possible)
	}
	k.now, k.doubted = now, time.Time{}
	if now.Mapping != nil {
		k.last = now.Mapping
	}
	return differs || failed
}

// hear takes the event of a definition of a resource, or of all if that is empty, and reports whether it may be about the kind. The
// definition of another resource may be, if it comes and the kind is absent or goes.
func (k *kind) hear(resource string, what news) bool {
	stays := k.now.cacheable() && k.news != deleted
	if resource != "" && resource != k.last.Resource.Resource && (what == deleted || stays) {
		return false
	}
	k.news = what
	return true
}
