// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarn-dev/tarn/internal/inspected"
	"github.com/tarn-dev/tarn/internal/resolver"
	"github.com/tarn-dev/tarn/internal/served"
)

// discoveryAnswers is an API server that answers everything about Pods, discovery too, with an HTTP status.
type discoveryAnswers struct {
	announcing
	code int
}

func answering(code int) *discoveryAnswers {
	return &discoveryAnswers{announcing{hosting: hosting{end: make(chan struct{})}, crds: make(chan string)}, code}
}

// RoundTrip implements http.RoundTripper.
func (s *discoveryAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasPrefix(r.URL.Path, "/api/v1") {
		return s.announcing.RoundTrip(r)
	}
	return &http.Response{StatusCode: s.code, Header: http.Header{}, Request: r, Body: io.NopCloser(strings.NewReader("no answer"))}, nil
}

// TestWaitForCacheSyncEndsWhenAKindIsDormant: the RESTMapper knows it, and the first look of discovery, or the first
// list, tells that it cannot be cached.
func TestWaitForCacheSyncEndsWhenAKindIsDormant(t *testing.T) {
	servers := map[string]func() http.RoundTripper{
		"it is not served": func() http.RoundTripper {
			return &announcing{hosting: hosting{end: make(chan struct{})}, crds: make(chan string)}
		},
		"it has other verbs":     func() http.RoundTripper { return newUnwatchable(`["create"]`, false) },
		"it is unavailable":      func() http.RoundTripper { return answering(http.StatusServiceUnavailable) },
		"nobody answers in time": func() http.RoundTripper { return answering(http.StatusGatewayTimeout) },
	}
	for name, server := range servers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				o := optionalOptions(g, server(), testOptions())
				o.Mapper = newMapper()
				m := NewMap(o)
				m.Go(o.Served.Run)
				entry, err := m.Get(t.Context(), podKey)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(entry.Want(t.Context(), false)).To(Succeed())
				running(t, m)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				begun := time.Now()
				g.Expect(m.WaitForCacheSync(ctx)).To(BeTrue())
				g.Expect(time.Since(begun)).To(BeNumerically("<", 10*time.Second))
				phase, why := entry.phase()
				g.Expect(phase).To(Equal(inspected.Dormant))
				g.Expect(entry.WaitForSync(t.Context())).To(MatchError(why.Error()))
			})
		})
	}
}

// returning is the error of a RESTMapper because of which a kind is dormant. Once, when somebody asks for its cause,
// the kind comes back: between the two there is no lock.
type returning struct {
	error
	back *atomic.Pointer[func()]
}

// As is called by errors.As.
func (r returning) As(any) bool {
	if back := r.back.Swap(nil); back != nil {
		(*back)()
	}
	return false
}

func (r returning) Unwrap() error { return r.error }

// unmapped is a RESTMapper that fails.
type unmapped struct {
	meta.RESTMapper
	err error
}

// RESTMapping implements meta.RESTMapper.
func (u unmapped) RESTMapping(schema.GroupKind, ...string) (*meta.RESTMapping, error) {
	return nil, u.err
}

// dormantWith returns a map that is not started, with Pods that are dormant and will come back when somebody asks why,
// after arm was called. Nothing else looks at discovery.
func dormantWith(t *testing.T, g *WithT, policy FailurePolicy) (m *Map, entry *MapEntry, arm func()) {
	server, back := &hosting{end: make(chan struct{})}, &atomic.Pointer[func()]{}
	server.serves.Store(true)
	o := testOptions()
	o.Tuning = func(schema.GroupVersionKind) KindTuning { return KindTuning{OnFailure: policy} }
	o = optionalOptions(g, server, o)
	o.Mapper = unmapped{err: returning{apierrors.NewServiceUnavailable("no server"), back}}
	m = NewMap(o)
	entry, err := m.Get(t.Context(), podKey)
	g.Expect(err).NotTo(HaveOccurred())
	mapping, err := newMapper().RESTMapping(podKey.GroupKind(), podKey.Version)
	g.Expect(err).NotTo(HaveOccurred())
	return m, entry, func() {
		come := func() { entry.optional().tell(served.State{Mapping: mapping}) }
		back.Store(&come)
	}
}

// TestFailFastIsNotTheEndWhileAKindComesBack: that it was dormant is no failure.
func TestFailFastIsNotTheEndWhileAKindComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		m, entry, arm := dormantWith(t, g, FailFast)
		running(t, m) // it fails the test if Start returns an error
		synctest.Wait()
		arm()
		entry.failures.Wake() // as whatever has failed does
		synctest.Wait()
		g.Expect(m.Failed()).To(BeFalse())
		_, _ = entry.phase() // somebody looks: now it comes, at the latest
		g.Expect(entry.WaitForSync(t.Context())).To(Succeed())
	})
}

// TestGetInformerSucceedsWhileAKindComesBack: it succeeds before, and after.
func TestGetInformerSucceedsWhileAKindComesBack(t *testing.T) {
	for _, policy := range []FailurePolicy{WaitOnFailure, FailFast, Isolate} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				m, entry, arm := dormantWith(t, g, policy)
				running(t, m)
				synctest.Wait()
				arm()
				g.Expect(entry.Want(t.Context(), true)).To(Succeed())
				g.Expect(entry.WaitForSync(t.Context())).To(Succeed(), "it has come")
			})
		})
	}
}

// slowToFail is an API server that answers each list with a failure, when it may, also to a client that has gone.
type slowToFail struct {
	hosting
	answer chan struct{}
}

// RoundTrip implements http.RoundTripper.
func (s *slowToFail) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path != "/api/v1/pods" {
		return s.hosting.RoundTrip(r)
	}
	<-s.answer
	return &http.Response{
		StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","reason":"Forbidden","code":403}`)),
	}, nil
}

// TestAFailureOfBeforeAKindCameBackIsNotItsCause: the API server refuses a list when the kind is dormant, and when it
// is back.
func TestAFailureOfBeforeAKindCameBackIsNotItsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server := &slowToFail{hosting{end: make(chan struct{})}, make(chan struct{})}
		server.serves.Store(true)
		o := optionalOptions(g, server, testOptions())
		o.Mapper = newMapper()
		m := NewMap(o) // nothing looks at discovery
		stop := running(t, m)
		entry, err := m.Get(t.Context(), podKey)
		g.Expect(err).NotTo(HaveOccurred())
		synctest.Wait()
		entry.optional().tell(served.State{})
		entry.optional().tell(served.State{Mapping: resolver.MappingTo(podKey.GroupVersionKind, "pods", meta.RESTScopeNamespace)})
		server.answer <- struct{}{}
		synctest.Wait()
		reason := entry.NotSynced()
		g.Expect(reason).NotTo(BeNil())
		g.Expect(reason.Cause).To(Equal(Listing), "%v", reason)

		server.answer <- struct{}{} // to the list of now
		synctest.Wait()
		g.Expect(entry.NotSynced().Cause).To(Equal(Forbidden))
		close(server.answer)
		stop()
	})
}
