// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/inspected"
	"github.com/tarn-dev/tarn/internal/note"
	"github.com/tarn-dev/tarn/internal/served"
)

// hosting is an API server that serves Pods, or does not, and lets nobody watch CRDs.
type hosting struct {
	serves atomic.Bool
	lists  atomic.Int64
	end    chan struct{} // ends a watch
	old    string        // the answer to a list of any version, as from a cache; empty for one that is not old
	next   chan string   // has the answers to lists; nil for one answer to all
}

// RoundTrip implements http.RoundTripper.
func (s *hosting) RoundTrip(r *http.Request) (*http.Response, error) {
	response := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r}
	answer := func(code int, body string) (*http.Response, error) {
		response.StatusCode, response.Body = code, io.NopCloser(strings.NewReader(body))
		return response, nil
	}
	switch path := r.URL.Path; {
	case strings.Contains(path, "customresourcedefinitions"):
		return answer(http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)
	case strings.Contains(path, "apiservices"), !s.serves.Load():
		return answer(http.StatusNotFound, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
	case path == "/api/v1":
		return answer(http.StatusOK, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[{"name":"pods","kind":"Pod","namespaced":true}]}`)
	case r.URL.Query().Get("watch") == "":
		s.lists.Add(1)
		if s.next != nil {
			select {
			case list := <-s.next:
				return answer(http.StatusOK, list)
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		}
		if s.old != "" && r.URL.Query().Get("resourceVersion") == "0" {
			return answer(http.StatusOK, s.old)
		}
		return answer(http.StatusOK, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[`+pod("a", 4, "n")+`]}`)
	}
	response.Body = idleBody{s.end, r.Context().Done()}
	return response, nil
}

// optionalOptions returns o with optional kinds, of which the RESTMapper knows none.
func optionalOptions(g *WithT, server http.RoundTripper, o Options) Options {
	o.Name, o.HTTPClient, o.Config = "optional-test", &http.Client{Transport: server}, &rest.Config{}
	o.Mapper = meta.NewDefaultRESTMapper(nil)
	tuning := KindTuning{Optional: ptr.To(true)}
	if o.Tuning != nil {
		tuning = tuning.Or(o.Tuning(podKey.GroupVersionKind))
	}
	o.Tuning = func(schema.GroupVersionKind) KindTuning { return tuning }
	var err error
	o.Served, err = served.New(o.Config, o.HTTPClient, o.Logger)
	g.Expect(err).NotTo(HaveOccurred())
	return o
}

// newOptionalMap returns a map of optional kinds.
func newOptionalMap(g *WithT, server http.RoundTripper) *Map {
	return newOptionalMapOf(g, server, testOptions())
}

func newOptionalMapOf(g *WithT, server http.RoundTripper, o Options) *Map {
	o = optionalOptions(g, server, o)
	m := NewMap(o)
	m.Go(o.Served.Run)
	return m
}

// TestAListOfBeforeAKindCameBackIsNotTheFirstOne: the objects of a long list are still being transformed when the
// kind goes, and when it is back.
func TestAListOfBeforeAKindCameBackIsNotTheFirstOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server := &hosting{end: make(chan struct{}), next: make(chan string)}
		server.serves.Store(true)
		o, pass := testOptions(), make(chan struct{})
		o.Transform = func(obj any) (any, error) {
			if obj.(client.Object).GetName() == "old" {
				<-pass
			}
			return obj, nil
		}
		m := newOptionalMapOf(g, server, o)
		stop := running(t, m)
		m.NoteWrite(note.Write{Kind: podKey.GroupVersionKind, Key: client.ObjectKey{Namespace: "ns", Name: "a"}, Outcome: note.Ambiguous, Revision: 50})
		entry, err := m.Get(t.Context(), podKey)
		g.Expect(err).NotTo(HaveOccurred())
		server.next <- podList(60, pod("old", 4, "n"))
		synctest.Wait()
		mapping := entry.optional().mapping
		g.Expect(mapping).NotTo(BeNil())
		entry.optional().tell(served.State{})
		entry.optional().tell(served.State{Mapping: mapping})
		pass <- struct{}{}
		synctest.Wait()
		g.Expect(entry.synced()).To(BeFalse(), "the list is of before")
		g.Expect(entry.pending.before.Load()).To(BeEquivalentTo(50), "the first list is checked against what was written")

		server.next <- podList(70, pod("a", 50, "n"))
		g.Expect(entry.WaitForSync(t.Context())).To(Succeed())
		_, err = readPod(t, entry, "old")
		g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
		g.Expect(entry.pending.before.Load()).To(BeZero())
		stop()
	})
}

// TestAKindThatComesAndGoesLeavesNothing: a hundred times, with a handler, where CRDs may not be
// watched.
func TestAKindThatComesAndGoesLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server := &hosting{end: make(chan struct{})}
		m := newOptionalMap(g, server)
		stop := running(t, m)
		entry, err := m.Get(t.Context(), podKey)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(m.WaitForCacheSync(t.Context())).To(BeTrue())
		var added, deleted atomic.Int64
		handle, err := entry.Informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { added.Add(1) }, DeleteFunc: func(any) { deleted.Add(1) },
		})
		g.Expect(err).NotTo(HaveOccurred())
		synctest.Wait()
		g.Expect(handle.HasSynced()).To(BeTrue())
		g.Expect(meta.IsNoMatchError(entry.WaitForSync(t.Context()))).To(BeTrue())

		cycle := func() {
			server.serves.Store(true)
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			g.Expect(entry.WaitForSync(t.Context())).To(Succeed())
			server.serves.Store(false)
			server.end <- struct{}{} // as an API server does
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			g.Expect(meta.IsNoMatchError(entry.WaitForSync(t.Context()))).To(BeTrue())
		}
		cycle()
		goroutines, memory := runtime.NumGoroutine(), heap()
		for range 99 {
			cycle()
		}
		g.Expect(runtime.NumGoroutine()).To(BeNumerically("~", goroutines, 3), "some of tests before may end meanwhile")
		g.Expect(heap()).To(BeNumerically("<", memory+4<<20))
		g.Expect([]int64{added.Load(), deleted.Load(), server.lists.Load()}).To(HaveEach(int64(100)))
		stop()
	})
}

// TestAKindThatComesBackIsNotOlderThanOwnWrites: the API server that lists it is another one, whose
// cache is late.
func TestAKindThatComesBackIsNotOlderThanOwnWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server := &hosting{end: make(chan struct{}), old: podList(3)}
		m := newOptionalMap(g, server)
		stop := running(t, m)
		entry, err := m.Get(t.Context(), podKey)
		g.Expect(err).NotTo(HaveOccurred())
		serve := func(serves bool) {
			server.serves.Store(serves)
			if !serves {
				server.end <- struct{}{}
			}
			time.Sleep(2 * time.Minute)
			synctest.Wait()
		}
		serve(true)
		m.NoteWrite(wrote("a", 4))
		time.Sleep(10 * time.Minute) // it is long forgotten
		serve(false)
		serve(true)
		g.Expect(entry.WaitForSync(t.Context())).To(Succeed())
		_, err = readPod(t, entry, "a")
		g.Expect(err).NotTo(HaveOccurred())
		serve(false)
		stop()
	})
}

// TestAKindThatIsBackIsNotSaidToBeAbsent: its first list takes long. What failed before the kind went is of the past.
func TestAKindThatIsBackIsNotSaidToBeAbsent(t *testing.T) {
	for _, policy := range []FailurePolicy{WaitOnFailure, FailFast, Isolate} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				server := &hosting{end: make(chan struct{}), next: make(chan string)}
				server.serves.Store(true)
				o := testOptions()
				o.Tuning = func(schema.GroupVersionKind) KindTuning { return KindTuning{OnFailure: policy} }
				m := newOptionalMapOf(g, server, o)
				running(t, m)
				entry, err := m.Get(t.Context(), podKey)
				g.Expect(err).NotTo(HaveOccurred())
				server.next <- podList(5)
				g.Expect(entry.WaitForSync(t.Context())).To(Succeed())
				synctest.Wait() // the watch is open

				server.serves.Store(false)
				server.end <- struct{}{}
				time.Sleep(3 * time.Hour)
				g.Expect(meta.IsNoMatchError(entry.WaitForSync(t.Context()))).To(BeTrue())
				server.serves.Store(true)
				time.Sleep(2 * time.Minute)
				short, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				err = entry.WaitForSync(short)
				g.Expect(apierrors.IsTimeout(err)).To(BeTrue(), "%v", err)
				g.Expect(err).To(MatchError(ContainSubstring("no error so far")))
				g.Expect(short.Err()).To(HaveOccurred(), "the read waits for the list")
				phase, err := entry.phase()
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(phase).To(Equal(inspected.Lists))

				server.next <- podList(70)
				g.Expect(entry.WaitForSync(t.Context())).To(Succeed())
			})
		})
	}
}

// behind is one of several API servers: it does not know Pods yet when discovery shows them.
type behind struct {
	hosting
	until time.Time
}

// RoundTrip implements http.RoundTripper.
func (s *behind) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path == "/api/v1/pods" && time.Now().Before(s.until) {
		return new(hosting).RoundTrip(r) // it serves nothing
	}
	return s.hosting.RoundTrip(r)
}

// TestAnAPIServerThatIsBehindDiscoveryIsNoFailure: with FailFast a list that fails would end the cache.
func TestAnAPIServerThatIsBehindDiscoveryIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server := &behind{hosting: hosting{end: make(chan struct{})}, until: time.Now().Add(time.Second)}
		server.serves.Store(true)
		o := testOptions()
		o.Tuning = func(schema.GroupVersionKind) KindTuning { return KindTuning{OnFailure: FailFast} }
		m := newOptionalMapOf(g, server, o)
		running(t, m)
		entry, err := m.Get(t.Context(), podKey)
		g.Expect(err).NotTo(HaveOccurred())
		time.Sleep(1100 * time.Millisecond) // the Reflector alone would try again later
		g.Expect(m.Failed()).To(BeFalse())
		g.Expect(entry.phase()).To(Equal(inspected.Synced))
	})
}

// heap returns the number of bytes of the heap that are in use.
func heap() int {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}
