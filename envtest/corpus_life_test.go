// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"fmt"
	"net/http"
	"strings"
)

const dry = "?dryRun=All"

// creations are the ways to make an object that say nothing about its kind. None is kept.
func (s *story) creations() {
	name := s.fresh()
	edit := func(label, query string, change func(obj map[string]any)) {
		obj := s.object(name)
		change(obj)
		s.post("create "+label, query, obj)
	}
	meta := func(label, key string, value any) {
		edit("with "+key+" "+label, dry, func(obj map[string]any) { metadata(obj)[key] = value })
	}
	edit("of another version", dry, func(obj map[string]any) { obj["apiVersion"] = "other/v1" })
	edit("of another kind", dry, func(obj map[string]any) { obj["kind"] = "Other" })
	edit("without a kind", dry, func(obj map[string]any) { delete(obj, "kind"); delete(obj, "apiVersion") })
	edit("with an unknown field", dry+"&fieldValidation=Strict", func(obj map[string]any) { obj["unknown"] = 1 })
	edit("with an unknown field that is dropped", dry+"&fieldValidation=Ignore", func(obj map[string]any) { obj["unknown"] = 1 })
	edit("with a query that is none", "?dryRun=Some", func(map[string]any) {})
	edit("with a field validation that is none", "?fieldValidation=Some", func(map[string]any) {})
	edit("with a field manager that is none", dry+"&fieldManager=%00", func(map[string]any) {})
	meta("missing", "name", "")
	meta("that is none", "name", "Not_valid!")
	meta("that is long", "name", strings.Repeat("a", 254))
	meta("that is none", "labels", map[string]any{"a b": "c"})
	meta("with a value that is none", "labels", map[string]any{"a": "c d"})
	meta("that is none", "annotations", map[string]any{"a b": "c"})
	meta("that are no strings", "annotations", map[string]any{"a": 1})
	meta("that is not qualified", "finalizers", []any{"unqualified"})
	meta("that is none", "finalizers", []any{"a b/c d"})
	meta("that are at odds", "finalizers", []any{"orphan", "foregroundDeletion"})
	meta("that is qualified", "finalizers", []any{"example.com/a"})
	meta("that is empty", "ownerReferences", []any{map[string]any{}})
	meta("that is whole", "ownerReferences", []any{owner("a", false)})
	meta("of two controllers", "ownerReferences", []any{owner("a", true), owner("b", true)})
	meta("of an object", "resourceVersion", "5")
	meta("of an object", "uid", "a")
	meta("elsewhere", "namespace", "other")
	meta("of another object", "managedFields", []any{map[string]any{"manager": "a", "operation": "Apply"}})
	meta("in the past", "deletionTimestamp", "2020-01-01T00:00:00Z")
	meta("that is seven", "generation", 7)
	edit("from a prefix that is none", dry, func(obj map[string]any) { obj["metadata"] = map[string]any{"generateName": "Not_valid-"} })
	s.post("create of no JSON", dry, []byte(`{"metadata":`))
	s.post("create of a list", dry, []byte(`[]`))
	s.both(ask{label: "create as text", method: http.MethodPost, path: s.collection() + dry, content: "text/plain", body: []byte("a")})
	if !s.cluster {
		elsewhere := strings.Replace(s.collection(), s.namespace(), "no-such-namespace", 1)
		s.both(ask{label: "create in a namespace that is not there", method: http.MethodPost, path: elsewhere, content: jsonType, body: s.object(name)})
	}
}

func owner(name string, controller bool) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": name, "controller": controller}
}

// life is that of one object, from its creation until it is gone.
func (s *story) life() {
	name := s.fresh()
	s.post("create dry", dry, s.object(name))
	s.get("get after a dry create", "/"+name)
	s.post("create", "?fieldValidation=Strict&fieldManager=creator", s.object(name))
	s.post("create again", "", s.object(name))
	s.reads(name)
	s.updates(name)
	s.patches(name)
	s.applies(name)
	s.statuses(name)
	s.scales(name)
	s.end(name)
}

func (s *story) reads(name string) {
	s.get("get", "/"+name)
	s.table("get as a table", "/"+name)
	s.table("list as a table", "?fieldSelector=metadata.name%3D"+name)
	s.get("get of a version", "/"+name+"?resourceVersion=0")
	s.get("get of a version that is none", "/"+name+"?resourceVersion=a")
	s.get("get of nothing", "/nothing")
	s.get("list by a label", "?labelSelector=nobody%3Dhas")
	s.get("list by a name", "?fieldSelector=metadata.name%3D"+name)
	s.get("list by a selector that is none", "?labelSelector=%21%21")
	s.get("list by a field that is none", "?fieldSelector=spec.unknown%3Da")
	s.get("list of a version that is none", "?resourceVersion=a")
	s.get("list with a match that is none", "?resourceVersionMatch=Exact")
	s.get("list with a token that is none", "?limit=1&continue=a")
	s.get("a subresource that is none", "/"+name+"/unknown")
	s.both(ask{label: "post to an object", method: http.MethodPost, path: s.collection() + "/" + name, content: jsonType, body: s.object(name)})
}

func (s *story) updates(name string) {
	s.get("get for an update", "/"+name)
	fresh := s.last
	s.put("put of the same", name, "", func(map[string]any) {})
	s.put("put of an old version", name, "", func(obj map[string]any) { metadata(obj)["resourceVersion"] = "1" })
	s.put("put of a version that is none", name, "", func(obj map[string]any) { metadata(obj)["resourceVersion"] = "a" })
	s.put("put of another name", name, "", func(obj map[string]any) { metadata(obj)["name"] = "other" })
	s.put("put of another object", name, "", func(obj map[string]any) { metadata(obj)["uid"] = "other" })
	s.put("put elsewhere", name, "", func(obj map[string]any) { metadata(obj)["namespace"] = "other" })
	s.put("put with labels that are none", name, "", func(obj map[string]any) { metadata(obj)["labels"] = map[string]any{"a b": "c"} })
	s.put("put with a finalizer that is none", name, "", func(obj map[string]any) { metadata(obj)["finalizers"] = []any{"a b"} })
	s.put("put with an unqualified finalizer", name, dry, func(obj map[string]any) { metadata(obj)["finalizers"] = []any{"unqualified"} })
	s.put("put of another kind", name, "", func(obj map[string]any) { obj["kind"] = "Other" })
	s.put("put without a version", name, dry, func(obj map[string]any) { delete(metadata(obj), "resourceVersion") })
	s.put("put without a uid", name, dry, func(obj map[string]any) { delete(metadata(obj), "uid") })
	s.put("put of another creation", name, dry, func(obj map[string]any) { metadata(obj)["creationTimestamp"] = "2020-01-01T00:00:00Z" })
	s.put("put without owners of fields", name, dry, func(obj map[string]any) { metadata(obj)["managedFields"] = []any{} })
	s.put("put with a label", name, "?fieldManager=putter", func(obj map[string]any) { metadata(obj)["labels"] = map[string]any{"put": "yes"} })
	s.last = fresh
	s.put("put to nothing", "nothing", dry, func(obj map[string]any) {
		obj["metadata"] = map[string]any{"name": "nothing"}
	})
	s.put("put to nothing with a uid", "nothing", dry, func(obj map[string]any) {
		obj["metadata"] = map[string]any{"name": "nothing", "uid": "a"}
	})
	manifest := s.object(name)
	s.both(ask{label: "put of the manifest", method: http.MethodPut, path: s.collection() + "/" + name + dry, content: jsonType, body: manifest})
}

func (s *story) patches(name string) {
	label := func(value string) map[string]any {
		return map[string]any{"metadata": map[string]any{"labels": map[string]any{"patched": value}}}
	}
	s.patch("merge patch of the state", name, "?fieldManager=merger", mergePatch, raw(s.change))
	s.patch("merge patch of the state again", name, "?fieldManager=merger", mergePatch, raw(s.change))
	s.patch("merge patch of a label", name, "", mergePatch, label("merge"))
	s.patch("merge patch of the name", name, "", mergePatch, raw(`{"metadata":{"name":"other"}}`))
	s.patch("merge patch of the uid", name, "", mergePatch, raw(`{"metadata":{"uid":"other"}}`))
	s.patch("merge patch of an old version", name, "", mergePatch, raw(`{"metadata":{"resourceVersion":"1"}}`))
	s.patch("merge patch with an unknown field", name, dry+"&fieldValidation=Strict", mergePatch, raw(`{"unknown":1}`))
	s.patch("merge patch with a bad label", name, "", mergePatch, label("a b"))
	s.patch("merge patch that is none", name, "", mergePatch, []byte(`[`))
	s.patch("merge patch of nothing", "nothing", "", mergePatch, label("a"))
	s.patch("merge patch with force", name, dry+"&force=true", mergePatch, label("a"))
	s.patch("merge patch of the owners of fields", name, dry, mergePatch, raw(`{"metadata":{"managedFields":null}}`))
	s.patch("strategic patch of a label", name, "", strategicType, label("strategic"))
	s.patch("strategic patch of the state", name, dry, strategicType, raw(s.change))
	s.patch("strategic patch with a directive", name, dry, strategicType, raw(`{"metadata":{"labels":{"$patch":"delete"}}}`))
	s.patch("strategic patch with a directive that is none", name, dry, strategicType, raw(`{"metadata":{"labels":{"$patch":"other"}}}`))
	s.patch("JSON patch of a label", name, "", jsonPatch, []byte(`[{"op":"add","path":"/metadata/labels/patched","value":"json"}]`))
	s.patch("JSON patch that fails its test", name, "", jsonPatch, []byte(`[{"op":"test","path":"/metadata/name","value":"other"}]`))
	s.patch("JSON patch of a path that is not there", name, "", jsonPatch, []byte(`[{"op":"remove","path":"/unknown/a"}]`))
	s.patch("JSON patch that is none", name, "", jsonPatch, []byte(`{"op":"add"}`))
	s.patch("JSON patch of the kind", name, dry, jsonPatch, []byte(`[{"op":"replace","path":"/kind","value":"Other"}]`))
	s.patch("JSON patch with a wrong type", name, dry, jsonPatch, []byte(`[{"op":"replace","path":"/metadata/labels","value":7}]`))
	s.patch("patch as JSON", name, "", jsonType, label("a"))
}

func (s *story) applies(name string) {
	intent := func(value string) map[string]any {
		return map[string]any{"apiVersion": s.resource.GroupVersion().String(), "kind": s.kind,
			"metadata": map[string]any{"name": name, "labels": map[string]any{"applied": value}}}
	}
	s.patch("apply without a manager", name, "", applyType, intent("a"))
	s.patch("apply", name, "?fieldManager=one", applyType, intent("a"))
	s.patch("apply the same", name, "?fieldManager=one", applyType, intent("a"))
	s.patch("apply against another", name, "?fieldManager=two", applyType, intent("b"))
	s.patch("apply by force", name, "?fieldManager=two&force=true", applyType, intent("b"))
	s.patch("apply less", name, "?fieldManager=two", applyType, map[string]any{"apiVersion": s.resource.GroupVersion().String(), "kind": s.kind})
	s.patch("apply another kind", name, "?fieldManager=one", applyType, raw(`{"apiVersion":"v1","kind":"Other"}`))
	s.patch("apply another name", name, "?fieldManager=one", applyType, map[string]any{"apiVersion": s.resource.GroupVersion().String(), "kind": s.kind,
		"metadata": map[string]any{"name": "other"}})
	s.patch("apply an unknown field", name, "?fieldManager=one", applyType, map[string]any{"apiVersion": s.resource.GroupVersion().String(), "kind": s.kind, "unknown": 1})
	owned := intent("c")
	metadata(owned)["managedFields"] = []any{map[string]any{"manager": "a"}}
	s.patch("apply with owners of fields", name, "?fieldManager=one", applyType, owned)
	s.patch("apply no YAML", name, "?fieldManager=one", applyType, []byte("{"))
	s.patch("apply the manifest", name, dry+"&fieldManager=one&force=true", applyType, s.object(name))
	other := s.fresh()
	if s.name == "" {
		s.patch("apply to nothing", other, dry+"&fieldManager=one", applyType, s.object(other))
	}
}

func (s *story) statuses(name string) {
	if s.status == "" {
		return
	}
	s.get("get the status", "/"+name+"/status")
	s.patch("merge patch of the status", name, "/status?fieldManager=controller", mergePatch, raw(s.status))
	s.patch("merge patch of the status again", name, "/status?fieldManager=controller", mergePatch, raw(s.status))
	s.patch("merge patch of the state through the status", name, "/status"+dry, mergePatch, raw(s.change))
	s.patch("merge patch of a label through the status", name, "/status"+dry, mergePatch, raw(relabel))
	s.patch("strategic patch of the status", name, "/status"+dry, strategicType, raw(s.status))
	s.patch("JSON patch of the status", name, "/status"+dry, jsonPatch, []byte(`[{"op":"test","path":"/status/unknown","value":1}]`))
	s.patch("merge patch of the status with a wrong type", name, "/status"+dry, mergePatch, raw(`{"status":7}`))
	s.patch("merge patch of the status with an unknown field", name, "/status"+dry+"&fieldValidation=Strict", mergePatch, raw(`{"status":{"unknown":7}}`))
	s.patch("merge patch of the status of nothing", "nothing", "/status"+dry, mergePatch, raw(s.status))
	intent := raw(s.status)
	intent["apiVersion"], intent["kind"], intent["metadata"] = s.resource.GroupVersion().String(), s.kind, map[string]any{"name": name}
	s.patch("apply the status", name, "/status"+dry+"&fieldManager=three&force=true", applyType, intent)
	s.patch("merge patch of the status through the object", name, dry, mergePatch, raw(s.status))
	s.get("get after the status", "/"+name)
	s.table("get as a table after the status", "/"+name)
	s.put("put of the status", name, "/status", func(map[string]any) {})
	s.put("put of an old status", name, "/status", func(obj map[string]any) { metadata(obj)["resourceVersion"] = "1" })
	s.put("put of no status", name, "/status"+dry, func(obj map[string]any) { delete(obj, "status") })
	s.put("put of another status", "nothing", "/status", func(map[string]any) {})
}

func (s *story) scales(name string) {
	switch s.kind {
	case "Deployment", "ReplicaSet", "StatefulSet", "ReplicationController":
	default:
		return
	}
	s.get("get the scale", "/"+name+"/scale")
	scale := s.last
	set := func(n any) func(map[string]any) {
		return func(obj map[string]any) { obj["spec"] = map[string]any{"replicas": n} }
	}
	s.put("put of the scale", name, "/scale", set(5))
	s.put("put of an old scale", name, "/scale", func(obj map[string]any) { metadata(obj)["resourceVersion"] = "1" })
	s.last = scale
	for _, n := range []any{-1, 0, "a", 1.5, nil} {
		s.patch(fmt.Sprintf("merge patch of the scale to %v", n), name, "/scale", mergePatch, map[string]any{"spec": map[string]any{"replicas": n}})
	}
	s.patch("merge patch of the name of the scale", name, "/scale", mergePatch, raw(`{"metadata":{"name":"other"}}`))
	s.patch("merge patch of the scale of nothing", "nothing", "/scale", mergePatch, raw(replicas))
	s.patch("strategic patch of the scale", name, "/scale", strategicType, raw(replicas))
	s.patch("JSON patch of the scale", name, "/scale", jsonPatch, []byte(`[{"op":"replace","path":"/spec/replicas","value":2}]`))
	s.patch("apply the scale", name, "/scale?fieldManager=scaler&force=true", applyType,
		raw(`{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"`+name+`"},"spec":{"replicas":4}}`))
	s.patch("apply the scale against another", name, "/scale?fieldManager=other", applyType,
		raw(`{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"`+name+`"},"spec":{"replicas":6}}`))
	s.get("get after the scale", "/"+name)
}

func (s *story) end(name string) {
	s.delete("delete of another object", name, "", raw(`{"preconditions":{"uid":"other"}}`))
	s.delete("delete of another version", name, "", raw(`{"preconditions":{"resourceVersion":"1"}}`))
	s.delete("delete with a policy that is none", name, "", raw(`{"propagationPolicy":"Other"}`))
	s.delete("delete with two policies", name, "", raw(`{"propagationPolicy":"Orphan","orphanDependents":true}`))
	s.delete("delete with an unknown kind", name, "", raw(`{"kind":"Other","apiVersion":"v1"}`))
	s.delete("delete with no JSON", name, "", []byte("{"))
	s.delete("delete dry", name, dry, nil)
	s.delete("delete of nothing", "nothing", "", nil)
	s.delete("delete in the foreground", name, dry+"&propagationPolicy=Foreground", nil)
	s.delete("delete and orphan", name, dry+"&propagationPolicy=Orphan", nil)
	s.patch("hold it", name, "", mergePatch, raw(`{"metadata":{"finalizers":["example.com/hold"]}}`))
	s.delete("delete while it is held", name, "", nil)
	s.get("get while it is held", "/"+name)
	s.table("get as a table while it is held", "/"+name)
	s.delete("delete again while it is held", name, "", nil)
	s.patch("one more finalizer", name, "", mergePatch, raw(`{"metadata":{"finalizers":["example.com/hold","example.com/more"]}}`))
	s.patch("let it go", name, "", mergePatch, raw(`{"metadata":{"finalizers":[]}}`))
	s.get("get after it is gone", "/"+name)
	s.delete("delete what is gone", name, "", nil)
}
