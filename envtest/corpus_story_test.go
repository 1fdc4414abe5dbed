// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
)

// The media types of request bodies.
const (
	jsonType      = "application/json"
	jsonPatch     = "application/json-patch+json"
	mergePatch    = "application/merge-patch+json"
	strategicType = "application/strategic-merge-patch+json"
	applyType     = "application/apply-patch+yaml"
)

// story is what is asked about one kind. It runs in one goroutine.
type story struct {
	*corpus
	sample
	random *rand.Rand
	ctx    context.Context
	err    error // the first failure to reach a server; no request follows it
	// last is what each server answered to the last request that it did, dry runs aside: the objects that
	// updates begin with.
	last [2]map[string]any
	made int // counts names

	root   *node   // the schema of the kind, from the first call of schema on
	walker *walker // of it
}

func newStory(c *corpus, s sample, random *rand.Rand) *story {
	return &story{corpus: c, sample: s, random: random}
}

// tell asks everything about the kind.
func (s *story) tell(ctx context.Context) error {
	s.ctx = ctx
	if s.resource.Resource == "" {
		return nil
	}
	if err := s.makeNamespace(); err != nil {
		return err
	}
	s.creations()
	switch {
	case s.createOnly(), s.queuesRequests():
		s.createVariations()
	default:
		s.life()
		s.variations()
		s.annotations()
		s.pairs()
	}
	return s.err
}

// namespace is where the objects of the kind are, apart from those of others, which could be policies, and of other versions, whose
// stories are told at the same time.
func (s *story) namespace() string {
	group, _, _ := strings.Cut(s.resource.Group, ".")
	return fmt.Sprintf("corpus-%s-%.3s%s-%s", s.resource.Resource, group, s.resource.Version, s.run)
}

func (s *story) makeNamespace() error {
	namespace := map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": s.namespace()}}
	for _, server := range s.servers {
		got, err := server.send(s.ctx, ask{method: http.MethodPost, path: "/api/v1/namespaces", content: jsonType, body: namespace})
		if err != nil {
			return err
		}
		if got.refused() {
			return fmt.Errorf("make the namespace for %s: %s", s.resource.Resource, got.verdict())
		}
	}
	return nil
}

// createOnly tells whether objects of this kind can only be made.
func (s *story) createOnly() bool { return s.change == "" }

// queuesRequests tells whether the real server writes the objects of this kind itself, at any time, so that only dry creations
// can be compared.
func (s *story) queuesRequests() bool { return s.resource.Group == "flowcontrol.apiserver.k8s.io" }

// collection is the path of all objects of the kind, in the corpus' namespace if they are in one.
func (s *story) collection() string {
	root := "/apis/" + s.resource.Group + "/"
	if s.resource.Group == "" {
		root = "/api/"
	}
	root += s.resource.Version + "/"
	if !s.cluster {
		root += "namespaces/" + s.namespace() + "/"
	}
	return root + s.resource.Resource
}

// fresh is a name that no other object of this run has.
func (s *story) fresh() string {
	if s.name != "" {
		return s.name
	}
	s.made++
	return fmt.Sprintf("c%d-%s", s.made, s.run)
}

// object is the sample under a name.
func (s *story) object(name string) map[string]any {
	var obj map[string]any
	if err := json.Unmarshal([]byte(strings.ReplaceAll(s.content, "NAMESPACE", s.namespace())), &obj); err != nil {
		panic(err)
	}
	obj["apiVersion"], obj["kind"] = s.resource.GroupVersion().String(), s.kind
	meta, _ := obj["metadata"].(map[string]any)
	meta = maps.Clone(meta)
	if meta == nil {
		meta = map[string]any{}
	}
	meta["name"] = name
	obj["metadata"] = meta
	return obj
}

// both sends a request to both servers and compares the answers.
func (s *story) both(a ask) [2]answer {
	return s.each(func(int) ask { return a })
}

// each does so with requests that build on what each server answered before. It compares nothing if there is one server.
func (s *story) each(make func(i int) ask) [2]answer {
	var answers [2]answer
	var label string
	var dryRun bool
	for i, server := range s.servers {
		if s.err != nil {
			return answers
		}
		a := make(i)
		label, dryRun = a.label, strings.Contains(a.path, dry)
		answers[i], s.err = server.send(s.ctx, a)
	}
	if s.err != nil {
		return answers
	}
	if len(s.servers) > 1 {
		s.compare(s.resource.Resource+" "+label, answers[0], answers[1])
	}
	for i := range answers {
		if !answers[i].refused() && !dryRun {
			s.last[i] = answers[i].object
		}
	}
	return answers
}

func (s *story) post(label, query string, body any) [2]answer {
	return s.both(ask{label: label, method: http.MethodPost, path: s.collection() + query, content: jsonType, body: body})
}

func (s *story) patch(label, name, query, content string, body any) [2]answer {
	return s.both(ask{label: label, method: http.MethodPatch, path: s.collection() + "/" + name + query, content: content, body: body})
}

func (s *story) get(label, rest string) [2]answer {
	return s.both(ask{label: label, method: http.MethodGet, path: s.collection() + rest})
}

// table gets an object, or several of them, with the cells that kubectl shows.
func (s *story) table(label, rest string) [2]answer {
	return s.both(ask{label: label, method: http.MethodGet, path: s.collection() + rest, table: true})
}

// put sends what the servers answered last, changed.
func (s *story) put(label, name, query string, edit func(obj map[string]any)) [2]answer {
	last := s.last
	return s.each(func(i int) ask {
		obj := clone(last[i])
		edit(obj)
		return ask{label: label, method: http.MethodPut, path: s.collection() + "/" + name + query, content: jsonType, body: obj}
	})
}

func (s *story) delete(label, name, query string, options any) [2]answer {
	return s.both(ask{label: label, method: http.MethodDelete, path: s.collection() + "/" + name + query, content: jsonType, body: options})
}

// clone is a deep copy of a JSON object.
func clone(obj map[string]any) map[string]any {
	data, err := json.Marshal(obj)
	if err != nil {
		panic(err)
	}
	copied := map[string]any{}
	if err := json.Unmarshal(data, &copied); err != nil {
		panic(err)
	}
	return copied
}

// metadata returns the metadata of an object, to change it.
func metadata(obj map[string]any) map[string]any {
	meta, ok := obj["metadata"].(map[string]any)
	if !ok {
		meta = map[string]any{}
		obj["metadata"] = meta
	}
	return meta
}

// raw is JSON text as a value.
func raw(text string) map[string]any {
	value := map[string]any{}
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		panic(err)
	}
	return value
}
