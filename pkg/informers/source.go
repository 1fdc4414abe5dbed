// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarn-dev/tarn/internal/listwatch"
	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/projection"
)

// newSource returns the source for key. It makes its requests with client.
func newSource(o *Options, client *http.Client, key Key, mapping *meta.RESTMapping) (listwatch.Source, error) {
	target := listwatch.Target{
		Config: o.Config, HTTPClient: client, Scheme: o.Scheme,
		Kind: key.GroupVersionKind, Resource: mapping.Resource, Namespace: o.namespaceOf(mapping),
		Rule: o.rule(key.GroupVersionKind),
	}
	if err := target.Rule.CheckScope(mapping.Scope.Name()); err != nil {
		return nil, fmt.Errorf("cache tuning: Whole of %s: %w", object.Describe(key.GroupVersionKind), err)
	}
	list, ok := map[Representation]func(listwatch.Target) (listwatch.Source, error){
		Structured: listwatch.Structured, Unstructured: listwatch.Unstructured, Metadata: listwatch.Metadata,
	}[key.Representation]
	if !ok {
		return nil, fmt.Errorf("unknown representation %d", key.Representation)
	}
	made := func(t listwatch.Target) (listwatch.Source, error) {
		source, err := list(t)
		if err != nil {
			return nil, err
		}
		return t.Projected(source), nil
	}
	if o.wides == nil || target.Namespace == "" || target.Rule.Changed() != nil {
		return made(target)
	}
	return o.wides.Source(wideKey{key, mapping.Resource}, target, o.idleTimeout(key.GroupVersionKind), made)
}

// wideKey says what may be watched together.
type wideKey struct {
	Key
	resource schema.GroupVersionResource
}

// rule says what is kept of the objects of a kind.
func (s *Shared) rule(gvk schema.GroupVersionKind) *projection.Rule {
	tuned := s.tuning(gvk)
	return projection.RuleOf(tuned.Whole, tuned.Fields)
}

// checkTypes returns an error unless the scheme has the Go types that key needs.
func (s *Shared) checkTypes(key Key) error {
	if key.Representation != Structured {
		return nil
	}
	list := key.GroupVersion().WithKind(key.Kind + "List")
	for _, needed := range []schema.GroupVersionKind{key.GroupVersionKind, list} {
		if !s.Scheme.Recognizes(needed) {
			return object.NotRegistered(s.Scheme, "of "+object.Describe(needed), "; an object and its list are registered together")
		}
	}
	return nil
}

// namespaceOf returns the namespace in which to list and watch a resource. It is empty for all
// namespaces, and for a cluster-scoped resource.
func (o *Options) namespaceOf(mapping *meta.RESTMapping) string {
	switch {
	case mapping.Scope.Name() != meta.RESTScopeNameNamespace:
		return ""
	case o.Namespace != "":
		return o.Namespace
	}
	return o.Selector.Namespace()
}
