// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// node is what the corpus uses of a schema in OpenAPI v3.
type node struct {
	Ref        string           `json:"$ref"`
	AllOf      []*node          `json:"allOf"`
	OneOf      []*node          `json:"oneOf"`
	Type       string           `json:"type"`
	Format     string           `json:"format"`
	Enum       []any            `json:"enum"`
	Required   []string         `json:"required"`
	Properties map[string]*node `json:"properties"`
	Items      *node            `json:"items"`
	Extra      *node            `json:"additionalProperties"`
	Kinds      []struct {
		Group, Version, Kind string
	} `json:"x-kubernetes-group-version-kind"`
}

// schemas are those of one group version, by name.
type schemas map[string]*node

// schemasOf asks a server for the schemas of a group version.
func schemasOf(ctx context.Context, server *caller, gv schema.GroupVersion) (schemas, error) {
	path := "/openapi/v3/apis/" + gv.String()
	if gv.Group == "" {
		path = "/openapi/v3/api/" + gv.Version
	}
	got, err := server.send(ctx, ask{method: "GET", path: path})
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(got.object)
	if err != nil {
		return nil, err
	}
	var document struct {
		Components struct{ Schemas schemas }
	}
	if err := json.Unmarshal(data, &document); err != nil {
		return nil, fmt.Errorf("the schemas of %s: %w", gv, err)
	}
	return document.Components.Schemas, nil
}

// kind finds the schema of a kind.
func (s schemas) kind(gvk schema.GroupVersionKind) *node {
	for _, n := range s {
		for _, k := range n.Kinds {
			if k.Group == gvk.Group && k.Version == gvk.Version && k.Kind == gvk.Kind && n.Properties["metadata"] != nil {
				return n
			}
		}
	}
	return nil
}

// resolve follows references, and returns the name of the last one.
func (s schemas) resolve(n *node) (*node, string) {
	name := ""
	for n != nil {
		switch {
		case n.Ref != "":
			name = n.Ref[strings.LastIndex(n.Ref, "/")+1:]
			n = s[name]
		case len(n.AllOf) == 1 && n.Type == "":
			n = n.AllOf[0]
		default:
			return n, name
		}
	}
	return &node{}, name
}

// change sets the value at a path of an object. A part of the path is a key, or an index of a list.
type change struct {
	path  []any
	value any
}

func (c change) String() string {
	var text strings.Builder
	for _, part := range c.path {
		if key, ok := part.(string); ok {
			text.WriteString("." + key)
		} else {
			fmt.Fprintf(&text, "[%v]", part)
		}
	}
	return strings.TrimPrefix(text.String(), ".") + "=" + short(c.value)
}

// walker lists changes of an object by its schema: for every field that the schema has, values that are meaningful, at
// the bounds, and out of them.
type walker struct {
	schemas schemas
	changes []change
	within  []string // names of the schemas on the way to this one, against recursion
	shallow []string // schemas whose fields are left alone
}

// maxWithin bounds the depth.
const maxWithin = 12

func (w *walker) walk(n *node, at []any) {
	n, name := w.schemas.resolve(n)
	if slices.Contains(w.within, name) && name != "" || len(at) > maxWithin {
		return
	}
	for _, value := range w.values(n, name) {
		w.changes = append(w.changes, change{slices.Clone(at), value})
	}
	if slices.Contains(w.shallow, name) {
		return
	}
	w.within = append(w.within, name)
	defer func() { w.within = w.within[:len(w.within)-1] }()
	switch {
	case len(n.Properties) > 0:
		for _, key := range slices.Sorted(maps.Keys(n.Properties)) {
			if len(at) == 0 && (key == "metadata" || key == "apiVersion" || key == "kind") {
				continue
			}
			w.walk(n.Properties[key], append(slices.Clone(at), key))
		}
	case n.Items != nil:
		w.walk(n.Items, append(slices.Clone(at), 0))
	}
}

// values are what the corpus gives a field of this schema.
func (w *walker) values(n *node, name string) []any {
	switch {
	case len(n.Properties) > 0:
		return []any{map[string]any{}}
	case n.Items != nil:
		item := w.least(n.Items)
		return []any{[]any{item, item}, []any{}}
	case n.Extra != nil:
		return []any{map[string]any{"a": w.least(n.Extra)}, map[string]any{"Not valid!": w.least(n.Extra)}}
	case strings.HasSuffix(name, ".Quantity"):
		return []any{"1", "-1", "1500m"}
	case strings.HasSuffix(name, ".IntOrString"):
		return []any{1, -1, 70000, "50%", "a"}
	case n.Type == "string" && n.Format == "date-time":
		return []any{"2026-01-01T00:00:00Z"}
	case n.Type == "string" && n.Format == "byte":
		return []any{"YQ=="}
	case n.Type == "string":
		values := []any{"a", "Not valid!", ""}
		for _, value := range n.Enum {
			if value != "" {
				values = append(values, value)
			}
		}
		return values
	case n.Type == "integer", n.Type == "number":
		return []any{-1, 0, 7}
	case n.Type == "boolean":
		return []any{true, false}
	}
	return nil
}

// least is the smallest meaningful value of a schema.
func (w *walker) least(n *node) any {
	n, name := w.schemas.resolve(n)
	switch {
	case len(n.Properties) > 0:
		value := map[string]any{}
		for _, key := range n.Required {
			value[key] = w.least(n.Properties[key])
		}
		return value
	case n.Items != nil:
		return []any{w.least(n.Items)}
	case strings.HasSuffix(name, ".Quantity"):
		return "1"
	case strings.HasSuffix(name, ".IntOrString"):
		return 1
	case n.Extra != nil, n.Type == "object":
		return map[string]any{}
	case n.Type == "string" && n.Format == "date-time":
		return "2026-01-01T00:00:00Z"
	case n.Type == "string" && n.Format == "byte":
		return "YQ=="
	case n.Type == "string" && len(n.Enum) > 0:
		return n.Enum[0]
	case n.Type == "string":
		return "a"
	case n.Type == "boolean":
		return true
	}
	return 1
}

// apply returns a copy of an object with a change. Missing parts of the path are made with what their schema requires.
func (w *walker) apply(object any, n *node, path []any, value any) any {
	if len(path) == 0 {
		return value
	}
	n, _ = w.schemas.resolve(n)
	switch part := path[0].(type) {
	case string:
		copied := map[string]any{}
		if was, ok := object.(map[string]any); ok {
			for key, item := range was {
				copied[key] = item
			}
		} else if least, ok := w.least(n).(map[string]any); ok {
			copied = least
		}
		copied[part] = w.apply(copied[part], n.Properties[part], path[1:], value)
		return copied
	default:
		list, _ := object.([]any)
		list = slices.Clone(list)
		if len(list) == 0 {
			list = []any{w.least(n.Items)}
		}
		list[0] = w.apply(list[0], n.Items, path[1:], value)
		return list
	}
}
