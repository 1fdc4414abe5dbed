// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"fmt"
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// shallowSchemas are varied where a kind of their own has them, and not again in each kind that has them inside.
var shallowSchemas = map[string][]string{
	"Pod":                      nil,
	"CustomResourceDefinition": {"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"},
	"CronJob":                  {"io.k8s.api.core.v1.PodSpec"},
	"Job":                      {"io.k8s.api.core.v1.PodSpec"},
	"":                         {"io.k8s.api.core.v1.PodSpec", "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "io.k8s.api.core.v1.PersistentVolumeClaimSpec"},
}

// variationLimit bounds the updates by variations of one kind; which ones are made is drawn.
const variationLimit = 150

// variations are of one field each: at the creation of an object, in an update, and in the status.
func (s *story) variations() {
	desired, status := s.variationsOf()
	n, w := s.schema()
	for _, c := range desired {
		s.both(ask{label: "create " + c.String(), method: http.MethodPost, path: s.collection() + dry + "&fieldValidation=Strict", content: jsonType,
			body: w.apply(s.object("varied-"+s.run), n, c.path, c.value), table: true})
	}
	s.written()
	name := s.fresh()
	s.post("create to vary", "", s.object(name))
	s.get("get to vary", "/"+name)
	base := s.last
	for _, c := range s.draw(desired) {
		s.last = base
		s.varied("put "+c.String(), name, dry, c)
	}
	for _, c := range s.draw(status) {
		s.last = base
		s.varied("put of the status "+c.String(), name, "/status"+dry, c)
	}
	s.delete("delete what was varied", name, "?gracePeriodSeconds=0", nil)
	s.patch("let it go", name, "", mergePatch, raw(`{"metadata":{"finalizers":null}}`))
}

// createVariations are those of what can only be made.
func (s *story) createVariations() {
	desired, _ := s.variationsOf()
	n, w := s.schema()
	query := dry
	if s.createOnly() {
		query = "" // a review is nothing that could be kept
	}
	s.post("create", query, s.object("varied-"+s.run))
	for _, c := range desired {
		s.post("create "+c.String(), query, w.apply(s.object("varied-"+s.run), n, c.path, c.value))
	}
}

func (s *story) varied(label, name, query string, c change) {
	n, w := s.schema()
	last := s.last
	table := s.kind != "APIService" || c.path[0] != "status" // which the real server has no table of
	s.each(func(i int) ask {
		return ask{label: label, method: http.MethodPut, path: s.collection() + "/" + name + query, content: jsonType,
			body: w.apply(last[i], n, c.path, c.value), table: table}
	})
}

// merged applies a JSON merge patch.
func merged(obj, patch map[string]any) map[string]any {
	for key, value := range patch {
		inner, isMap := value.(map[string]any)
		was, wasMap := obj[key].(map[string]any)
		switch {
		case value == nil:
			delete(obj, key)
		case isMap && wasMap:
			obj[key] = merged(was, inner)
		default:
			obj[key] = value
		}
	}
	return obj
}

// schema returns the schema of the kind.
func (s *story) schema() (*node, *walker) {
	if s.walker == nil {
		known, err := schemasOf(s.ctx, s.servers[0], s.resource.GroupVersion())
		if err != nil && s.err == nil {
			s.err = err
		}
		group := s.resource.Group
		if s.kind == "Eviction" {
			group = "policy"
		}
		s.root = known.kind(schema.GroupVersionKind{Group: group, Version: s.resource.Version, Kind: s.kind})
		shallow, ok := shallowSchemas[s.kind]
		if !ok {
			shallow = shallowSchemas[""]
		}
		s.walker = &walker{schemas: known, shallow: shallow}
	}
	return s.root, s.walker
}

// variationsOf lists the changes of the desired state and those of the status.
func (s *story) variationsOf() (desired, status []change) {
	n, w := s.schema()
	if n == nil {
		s.err = fmt.Errorf("the real server has no schema of %s", s.kind)
		return nil, nil
	}
	w.changes = nil
	w.walk(n, nil)
	for _, c := range w.changes {
		switch {
		case len(c.path) == 0:
		case c.path[0] == "status":
			status = append(status, c)
		default:
			desired = append(desired, c)
		}
	}
	return desired, status
}

// draw picks as many changes as are made in updates, in their order.
func (s *story) draw(changes []change) []change {
	if len(changes) <= variationLimit {
		return changes
	}
	picked := s.random.Perm(len(changes))[:variationLimit]
	slices.Sort(picked)
	var drawn []change
	for _, i := range picked {
		drawn = append(drawn, changes[i])
	}
	return drawn
}
