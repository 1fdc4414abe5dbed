// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package served

import (
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
)

// answer is what discovery says of a kind. The zero value is that it is absent.
type answer struct {
	resource string
	scope    meta.RESTScopeName
	verbs    string // joined, of a kind without list or watch; empty of one that can be cached
}

func (a answer) served() bool { return a.resource != "" }

func (a answer) cacheable() bool { return a.served() && a.verbs == "" }

// answerFor returns what a list of resources says of a kind. If the kind has several resources, it takes one that can
// be cached.
func answerFor(kind string, resources *metav1.APIResourceList) (found answer) {
	for _, r := range resources.APIResources {
		if r.Kind != kind || strings.Contains(r.Name, "/") {
			continue
		}
		found = answer{resource: r.Name, scope: meta.RESTScopeNameRoot}
		if r.Namespaced {
			found.scope = meta.RESTScopeNameNamespace
		}
		if len(r.Verbs) == 0 || slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "watch") {
			return found
		}
		found.verbs = strings.Join(r.Verbs, ",")
	}
	return found
}

// doubted returns the kinds that an answer lacks, which could be cached until now, and whose deletion no event has told.
func (v *version) doubted(resources *metav1.APIResourceList) sets.Set[string] {
	kinds := sets.New[string]()
	for name, k := range v.kinds {
		if k.now.cacheable() && k.news != deleted && !answerFor(name, resources).cacheable() {
			kinds.Insert(name)
		}
	}
	return kinds
}

// see takes what an answer says, and reports whether that differs from what is known.
func (k *kind) see(now answer) (differs bool) {
	if differs = now != k.now; differs {
		k.lost = !now.served() && k.news < changed
	}
	if differs && now.served() || k.news == deleted && !now.served() {
		k.news = none // the answer shows what has happened
	}
	if k.now = now; now.served() {
		k.last = now
	}
	return differs
}

// hear takes the event of a definition of a resource, or of all if that is empty, and reports whether it may be about the kind. The
// definition of another resource may be, if it comes and the kind is absent or goes.
func (k *kind) hear(resource string, what news) bool {
	stays := k.now.cacheable() && k.news != deleted
	if resource != "" && resource != k.last.resource && (what == deleted || stays) {
		return false
	}
	k.news, k.lost = what, false
	return true
}

// state returns what the followers of the kind are told.
func (k *kind) state() State {
	switch {
	case !k.now.served():
		return State{}
	case !k.now.cacheable():
		return State{Verbs: strings.Split(k.now.verbs, ",")}
	case k.now.scope == meta.RESTScopeNameRoot:
		return State{Mapping: MappingTo(k.GroupVersionKind, k.now.resource, meta.RESTScopeRoot)}
	}
	return State{Mapping: MappingTo(k.GroupVersionKind, k.now.resource, meta.RESTScopeNamespace)}
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
