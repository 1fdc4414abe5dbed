// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package served

import (
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
)

func (s State) served() bool { return s.Mapping != nil || s.Verbs != nil }

// in returns what an answer says of the kind, and where it is served, nil if it is not. If the kind has several resources, that is one
// that can be cached.
func (k *kind) in(resources *metav1.APIResourceList) (now State, at *meta.RESTMapping) {
	for _, r := range resources.APIResources {
		if r.Kind != k.Kind || strings.Contains(r.Name, "/") {
			continue
		}
		scope := meta.RESTScopeRoot
		if r.Namespaced {
			scope = meta.RESTScopeNamespace
		}
		at = MappingTo(k.GroupVersionKind, r.Name, scope)
		if len(r.Verbs) == 0 || slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "watch") {
			return State{Mapping: at}, at
		}
		now.Verbs = r.Verbs
	}
	return now, at
}

// inDoubt returns those of the kinds that an answer lacks, that could be cached until now, and whose deletion no event has told.
func inDoubt(kinds []*kind, resources *metav1.APIResourceList) sets.Set[string] {
	doubted := sets.New[string]()
	for _, k := range kinds {
		if now, _ := k.in(resources); now.Mapping == nil && k.now.Mapping != nil && k.news != deleted {
			doubted.Insert(k.Kind)
		}
	}
	return doubted
}

// see takes what an answer says, and reports whether that is news. A server that has failed may not know all of its kinds yet.
func (k *kind) see(resources *metav1.APIResourceList) (news bool) {
	now, at := k.in(resources)
	differs := !reflect.DeepEqual(now, k.now)
	if differs {
		k.lost = !now.served() && k.news < changed
	}
	switch {
	case differs && now.served(), k.news == deleted && !now.served():
		k.news = none // the answer shows what has happened
	case k.failed:
		k.news = max(k.news, possible)
	}
	if k.now = now; at != nil {
		k.last = at
	}
	return differs || k.failed
}

// hear takes the event of a definition of a resource, or of all if that is empty, and reports whether it may be about the kind. The
// definition of another resource may be, if it comes and the kind is absent or goes.
func (k *kind) hear(resource string, what news) bool {
	stays := k.now.Mapping != nil && k.news != deleted
	if resource != "" && resource != k.last.Resource.Resource && (what == deleted || stays) {
		return false
	}
	k.news, k.lost = what, false
	return true
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
