// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarn-dev/tarn/internal/inspected"
)

// two is an API server with two kinds in one version of a group, of which each is served or not.
type two struct {
	announcing
	thing atomic.Bool // Things are served; and Pods if serves is set
}

var thingKey = Key{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "Thing"}, Representation: Unstructured}

// RoundTrip implements http.RoundTripper.
func (s *two) RoundTrip(r *http.Request) (*http.Response, error) {
	ok := func(body string) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Request: r, Body: io.NopCloser(strings.NewReader(body))}, nil
	}
	switch path := r.URL.Path; {
	case path == "/api/v1":
		s.asked.Add(1)
		var all []string
		if s.serves.Load() {
			all = append(all, `{"name":"pods","kind":"Pod","namespaced":true}`)
		}
		if s.thing.Load() {
			all = append(all, `{"name":"things","kind":"Thing","namespaced":true}`)
		}
		return ok(`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[` + strings.Join(all, ",") + `]}`)
	case strings.Contains(path, "/things") && r.URL.Query().Get("watch") == "":
		return ok(`{"kind":"ThingList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[]}`)
	}
	return s.announcing.RoundTrip(r)
}

// TestAKindIsSeenThatComesAfterAnotherOneOfItsGroup: discovery is behind, and nothing more happens to its CRD.
func TestAKindIsSeenThatComesAfterAnotherOneOfItsGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server := &two{announcing: announcing{hosting: hosting{end: make(chan struct{})}, crds: make(chan string)}}
		m := newOptionalMap(g, server)
		running(t, m)
		entry, err := m.Get(t.Context(), podKey)
		g.Expect(err).NotTo(HaveOccurred())
		thing, err := m.Get(t.Context(), thingKey)
		g.Expect(err).NotTo(HaveOccurred())
		time.Sleep(time.Minute)
		server.crds <- crdEvent("ADDED", 6)
		server.crds <- strings.ReplaceAll(crdEvent("ADDED", 7), "pods.", "things.")
		time.Sleep(10 * time.Millisecond)
		server.serves.Store(true)
		time.Sleep(100 * time.Millisecond)
		g.Expect(entry.WaitForSync(t.Context())).To(Succeed())
		server.thing.Store(true) // discovery is 100 ms behind
		time.Sleep(2 * time.Minute)
		g.Expect(thing.WaitForSync(t.Context())).To(Succeed())
	})
}

// TestAKindWhoseCRDWasReplacedIsSeen: discovery lacks it after the last event.
func TestAKindWhoseCRDWasReplacedIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server, entry := cachedMap(t, g)
		server.crds <- crdEvent("DELETED", 7)
		server.crds <- crdEvent("ADDED", 8)
		time.Sleep(10 * time.Millisecond)
		server.serves.Store(false)
		time.Sleep(500 * time.Millisecond)
		g.Expect(meta.IsNoMatchError(entry.WaitForSync(t.Context()))).To(BeTrue())
		server.serves.Store(true) // discovery is 500 ms behind
		time.Sleep(2 * time.Minute)
		g.Expect(entry.WaitForSync(t.Context())).To(Succeed())
	})
}

// TestAKindThatDiscoveryLackedForSecondsIsSeen: its server has just started, and no CRD was deleted.
func TestAKindThatDiscoveryLackedForSecondsIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server, entry := announcedMap(t, g, false)
		server.serves.Store(true)
		server.crds <- crdEvent("ADDED", 6)
		time.Sleep(10 * time.Second)
		g.Expect(entry.WaitForSync(t.Context())).To(Succeed())
		server.serves.Store(false)
		server.end <- struct{}{}
		time.Sleep(5 * time.Second)
		server.serves.Store(true)
		time.Sleep(2 * time.Minute)
		g.Expect(entry.WaitForSync(t.Context())).To(Succeed())
	})
}

// TestAKindWithAnotherScopeIsDormant: the RESTMapper knows the kind since the scope was asked for.
func TestAKindWithAnotherScopeIsDormant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server := &announcing{hosting: hosting{end: make(chan struct{})}, crds: make(chan string)}
		o := testOptions()
		o.Namespace, o.Scope = "ns", meta.RESTScopeNameNamespace
		o = optionalOptions(g, server, o)
		mapper := meta.NewDefaultRESTMapper(nil)
		mapper.Add(podKey.GroupVersionKind, meta.RESTScopeRoot)
		o.Mapper = mapper
		m := NewMap(o)
		running(t, m)
		entry, err := m.Get(t.Context(), podKey)
		g.Expect(err).NotTo(HaveOccurred())
		time.Sleep(time.Second)
		phase, _ := entry.phase()
		g.Expect(phase).To(Equal(inspected.Dormant))
	})
}

// failingFor is an API server whose discovery fails for some time.
type failingFor struct {
	announcing
	code atomic.Int64 // the HTTP status of its answers; zero if it does not fail
}

// RoundTrip implements http.RoundTripper.
func (s *failingFor) RoundTrip(r *http.Request) (*http.Response, error) {
	if c := s.code.Load(); c != 0 && r.URL.Path == "/api/v1" {
		s.asked.Add(1)
		return &http.Response{StatusCode: int(c), Header: http.Header{}, Request: r, Body: io.NopCloser(strings.NewReader("no answer"))}, nil
	}
	return s.announcing.RoundTrip(r)
}

// TestAKindIsSeenThatDiscoveryLacksAtFirstWhenItAnswersAgain: it has failed so often that looks are far apart.
func TestAKindIsSeenThatDiscoveryLacksAtFirstWhenItAnswersAgain(t *testing.T) {
	for _, code := range []int64{500, 503} {
		synctest.Test(t, func(t *testing.T) {
			g := NewWithT(t)
			server := &failingFor{announcing: announcing{hosting: hosting{end: make(chan struct{})}, crds: make(chan string)}}
			m := newOptionalMap(g, server)
			running(t, m)
			entry, err := m.Get(t.Context(), podKey)
			g.Expect(err).NotTo(HaveOccurred())
			server.code.Store(code)
			time.Sleep(10 * time.Millisecond)
			server.crds <- crdEvent("ADDED", 6)
			time.Sleep(30 * time.Second)
			server.code.Store(0) // the next look finds a server that does not know all of its kinds
			asked := server.asked.Load()
			for server.asked.Load() == asked {
				time.Sleep(100 * time.Millisecond)
			}
			time.Sleep(500 * time.Millisecond)
			server.serves.Store(true)
			time.Sleep(2 * time.Minute)
			g.Expect(entry.WaitForSync(t.Context())).To(Succeed())
		})
	}
}

// TestADeletionCostsFewQuestions: whichever is first, the notice or the end of the watch.
func TestADeletionCostsFewQuestions(t *testing.T) {
	for _, first := range []string{"watch", "notice"} {
		synctest.Test(t, func(t *testing.T) {
			g := NewWithT(t)
			server, entry := announcedMap(t, g, false)
			server.serves.Store(true)
			server.crds <- crdEvent("ADDED", 6)
			time.Sleep(15 * time.Second)
			g.Expect(entry.WaitForSync(t.Context())).To(Succeed())
			before := server.asked.Load()
			server.serves.Store(false)
			if first == "watch" {
				server.end <- struct{}{}
				time.Sleep(50 * time.Millisecond)
				server.crds <- crdEvent("DELETED", 7)
			} else {
				server.crds <- crdEvent("DELETED", 7)
				time.Sleep(50 * time.Millisecond)
			}
			time.Sleep(90 * time.Second)
			g.Expect(server.asked.Load() - before).To(BeNumerically("<=", 4))
		})
	}
}
