// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"errors"
	"fmt"
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
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/tarn-dev/tarn/internal/inspected"
	"github.com/tarn-dev/tarn/internal/listwatch"
	"github.com/tarn-dev/tarn/internal/resolver"
	"github.com/tarn-dev/tarn/internal/served"
)

// announcing is an API server that serves Pods, or does not, and tells of the CRD of Pods that there might be.
type announcing struct {
	hosting
	asked atomic.Int64 // requests for discovery
	slow  atomic.Bool  // they are answered a second later, with what was true before
	blind bool         // APIServices may not be watched
	leads bool         // the APIService of Pods leads to another server, and is the only one
	deny  atomic.Int64 // the HTTP status with which lists and watches of CRDs and APIServices are answered; zero for none
	crds  chan string  // events
}

// RoundTrip implements http.RoundTripper.
func (s *announcing) RoundTrip(r *http.Request) (*http.Response, error) {
	ok := func(body io.ReadCloser) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r, Body: body}, nil
	}
	watch := r.URL.Query().Get("watch") != ""
	switch path := r.URL.Path; {
	case s.blind && strings.Contains(path, "apiservices"):
		response, err := ok(io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)))
		response.StatusCode = http.StatusForbidden
		return response, err
	case s.leads && strings.Contains(path, "apiservices") && !watch:
		return ok(io.NopCloser(strings.NewReader(`{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"5"},"items":[
			{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"v1.","resourceVersion":"4"}}]}`)))
	case s.leads && strings.Contains(path, "apiservices") && r.URL.Query().Get("sendInitialEvents") == "":
		return ok(idleBody{s.end, r.Context().Done()})
	case s.deny.Load() != 0 && (strings.Contains(path, "apiservices") || strings.Contains(path, "customresourcedefinitions")):
		response, err := ok(io.NopCloser(strings.NewReader("denied")))
		response.StatusCode = int(s.deny.Load())
		return response, err
	case path == "/api/v1":
		s.asked.Add(1)
		response, err := s.hosting.RoundTrip(r)
		if s.slow.Load() {
			time.Sleep(time.Second)
		}
		return response, err
	case r.URL.Query().Get("sendInitialEvents") != "":
		response, err := ok(io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)))
		response.StatusCode = http.StatusUnprocessableEntity
		return response, err
	case strings.Contains(path, "customresourcedefinitions") && watch:
		return ok(&announcements{s.crds, r.Context()})
	case strings.Contains(path, "customresourcedefinitions"):
		return ok(io.NopCloser(strings.NewReader(`{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"5"},"items":[]}`)))
	}
	return s.hosting.RoundTrip(r)
}

// announcements is the body of a watch.
type announcements struct {
	events <-chan string
	ctx    context.Context
}

// Read implements io.Reader. An event is shorter than p.
func (a *announcements) Read(p []byte) (int, error) {
	select {
	case event := <-a.events:
		return copy(p, event), nil
	case <-a.ctx.Done():
		return 0, io.EOF
	}
}

// Close implements io.Closer.
func (*announcements) Close() error { return nil }

// crdEvent is an event of the CRD whose group is that of Pods.
func crdEvent(of string, version int) string {
	return fmt.Sprintf(`{"type":%q,"object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"pods.","resourceVersion":"%d"}}}`+"\n", of, version)
}

// announcedMap runs a map of optional kinds, with Pods in it, until the test ends.
func announcedMap(t *testing.T, g *WithT, blind bool) (*announcing, *MapEntry) {
	server := &announcing{hosting: hosting{end: make(chan struct{})}, crds: make(chan string), blind: blind}
	m := newOptionalMap(g, server)
	running(t, m)
	entry, err := m.Get(t.Context(), podKey)
	g.Expect(err).NotTo(HaveOccurred())
	time.Sleep(time.Minute)
	return server, entry
}

// cachedMap is announcedMap a minute after the CRD has come: the kind is cached, and nobody looks any more.
func cachedMap(t *testing.T, g *WithT) (*announcing, *MapEntry) {
	server, entry := announcedMap(t, g, false)
	server.serves.Store(true)
	server.crds <- crdEvent("ADDED", 6)
	time.Sleep(time.Minute)
	g.Expect(entry.WaitForSync(t.Context())).To(Succeed())
	return server, entry
}

// TestAfterAKindHasGoneNobodyAsks: a look finds that it is gone, and each later event that says so has one look more.
func TestAfterAKindHasGoneNobodyAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server, entry := cachedMap(t, g)

		before := server.asked.Load()
		server.serves.Store(false)
		server.crds <- crdEvent("DELETED", 7)
		time.Sleep(time.Minute)
		server.crds <- crdEvent("DELETED", 8)
		time.Sleep(time.Minute)
		g.Expect(meta.IsNoMatchError(entry.WaitForSync(t.Context()))).To(BeTrue())
		g.Expect(server.asked.Load() - before).To(BeNumerically("<=", 3))
	})
}

// TestAKindThatCannotBeBoundIsTriedAgain: its first source cannot be made. The entry waits for the next event.
func TestAKindThatCannotBeBoundIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server, entry := announcedMap(t, g, false)
		tries := 0
		source, err := served.NewSource(resolver.Guess(podKey.GroupVersionKind), func(*meta.RESTMapping) (listwatch.Source, error) {
			if tries++; tries == 2 {
				return nil, errors.New("no source")
			}
			return listwatch.Metadata(listwatch.Target{Config: &rest.Config{}, HTTPClient: http.DefaultClient, Kind: podKey.GroupVersionKind})
		})
		g.Expect(err).NotTo(HaveOccurred())
		entry.optional().source = source
		server.serves.Store(true)
		server.crds <- crdEvent("ADDED", 6)
		time.Sleep(time.Minute)
		g.Expect(entry.WaitForSync(t.Context())).To(MatchError(ContainSubstring("no source")))
		server.crds <- crdEvent("MODIFIED", 7)
		time.Sleep(time.Minute)
		g.Expect(tries).To(Equal(3))
		g.Expect(entry.WaitForSync(t.Context())).To(Succeed())
	})
}

// TestWhatHappensDuringALookIsLookedAt: the kind comes back while a look finds that it has gone.
func TestWhatHappensDuringALookIsLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server, entry := announcedMap(t, g, false)
		server.serves.Store(true)
		server.crds <- crdEvent("ADDED", 6)
		time.Sleep(time.Minute)
		server.serves.Store(false)
		server.slow.Store(true)
		server.crds <- crdEvent("DELETED", 7)
		time.Sleep(time.Second / 2)
		server.serves.Store(true)
		server.crds <- crdEvent("ADDED", 8)
		time.Sleep(time.Minute)
		g.Expect(entry.WaitForSync(t.Context())).To(Succeed())
	})
}

// TestARemovedKindIsNotToldOf: it is removed while a look finds that it has gone, or has come.
func TestARemovedKindIsNotToldOf(t *testing.T) {
	for name, c := range map[string]struct{ before, after bool }{
		"gone": {before: true}, "come": {after: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				server := &announcing{hosting: hosting{end: make(chan struct{})}, crds: make(chan string)}
				server.serves.Store(c.before)
				o, lines := noted()
				o = optionalOptions(g, server, o)
				m := runningMap(t, o)
				entry, err := m.Get(t.Context(), podKey)
				g.Expect(err).NotTo(HaveOccurred())
				var told atomic.Int64
				time.Sleep(time.Minute)
				_, err = entry.Informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
					AddFunc: func(any) { told.Add(1) }, DeleteFunc: func(any) { told.Add(1) },
				})
				g.Expect(err).NotTo(HaveOccurred())
				synctest.Wait()
				server.serves.Store(c.after)
				server.slow.Store(true)
				server.crds <- crdEvent("DELETED", 7) // or whatever says that there is something to look at
				time.Sleep(time.Second / 2)
				lines()
				told.Store(0)
				m.Remove(podKey)
				time.Sleep(time.Minute)
				g.Expect(lines()).To(BeEmpty())
				g.Expect(told.Load()).To(BeZero())
				_, _, followed := o.Served.ScopeOf(podKey.GroupVersionKind)
				g.Expect(followed).To(BeFalse())
				asked := server.asked.Load()
				time.Sleep(time.Hour)
				g.Expect(server.asked.Load()).To(Equal(asked))
			})
		})
	}
}

// TestWhoMayNotWatchAtFirstWatchesLater: the right comes with the same kubectl apply as the program, a little later,
// or its token is renewed.
func TestWhoMayNotWatchAtFirstWatchesLater(t *testing.T) {
	for _, code := range []int64{http.StatusForbidden, http.StatusUnauthorized} {
		for _, away := range []time.Duration{time.Second, 10 * time.Minute} {
			t.Run(fmt.Sprint(code, " for ", away), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g := NewWithT(t)
					server := &announcing{hosting: hosting{end: make(chan struct{})}, crds: make(chan string)}
					server.deny.Store(code)
					m := newOptionalMap(g, server)
					running(t, m)
					entry, err := m.Get(t.Context(), podKey)
					g.Expect(err).NotTo(HaveOccurred())
					time.Sleep(away)
					server.deny.Store(0)
					time.Sleep(3 * time.Minute)
					before := server.asked.Load()
					time.Sleep(4 * time.Minute) // shorter than a watch
					g.Expect(server.asked.Load()-before).To(BeZero(), "a watch tells what comes")
					server.serves.Store(true)
					server.crds <- crdEvent("ADDED", 6)
					time.Sleep(time.Second)
					g.Expect(entry.WaitForSync(t.Context())).To(Succeed())
				})
			})
		}
	}
}

// partly is an API server of which one group does not answer discovery, or answers 503.
type partly struct {
	announcing
	answer int          // of the group, or zero for none
	asked  atomic.Int64 // requests for it
}

// RoundTrip implements http.RoundTripper.
func (s *partly) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.Contains(r.URL.Path, "away.example.com") {
		return s.announcing.RoundTrip(r)
	}
	s.asked.Add(1)
	if s.answer == 0 {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return &http.Response{StatusCode: s.answer, Header: http.Header{}, Request: r, Body: io.NopCloser(strings.NewReader("no answer"))}, nil
}

// TestAGroupThatDoesNotAnswerKeepsNoOtherWaiting: what serves it hangs, or is away.
func TestAGroupThatDoesNotAnswerKeepsNoOtherWaiting(t *testing.T) {
	for name, answer := range map[string]int{"it hangs": 0, "it is away": http.StatusServiceUnavailable, "it fails": http.StatusInternalServerError} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				server := &partly{announcing: announcing{hosting: hosting{end: make(chan struct{})}, crds: make(chan string)}, answer: answer}
				m := newOptionalMap(g, server)
				running(t, m)
				away, err := m.Get(t.Context(), Key{GroupVersionKind: schema.GroupVersionKind{Group: "away.example.com", Version: "v1", Kind: "Thing"}, Representation: Unstructured})
				g.Expect(err).NotTo(HaveOccurred())
				entry, err := m.Get(t.Context(), podKey)
				g.Expect(err).NotTo(HaveOccurred())
				time.Sleep(5 * time.Minute)
				server.serves.Store(true)
				server.crds <- crdEvent("ADDED", 6)
				time.Sleep(time.Second)
				g.Expect(entry.WaitForSync(t.Context())).To(Succeed())
				before := server.asked.Load()
				time.Sleep(time.Hour)
				g.Expect(server.asked.Load()-before).To(BeNumerically("<=", 120), "once a minute, and after each list of CRDs")
				g.Expect(entry.phase()).To(Equal(inspected.Synced))
				g.Expect(meta.IsNoMatchError(away.WaitForSync(t.Context()))).To(BeTrue())
			})
		})
	}
}

// TestWithoutTheRightToWatchAPIServicesAKindThatComesIsSeen: a right to watch CRDs tells nothing of it.
func TestWithoutTheRightToWatchAPIServicesAKindThatComesIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server, entry := announcedMap(t, g, true)
		time.Sleep(10 * time.Minute)
		before := server.asked.Load()
		time.Sleep(time.Hour)
		g.Expect(server.asked.Load()-before).To(BeNumerically("<=", 120), "once a minute, and after each list of CRDs")
		server.serves.Store(true)
		time.Sleep(2 * time.Minute)
		g.Expect(entry.WaitForSync(t.Context())).To(Succeed())
	})
}
