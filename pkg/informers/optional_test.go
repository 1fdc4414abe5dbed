// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"io"
	"net/http"
	"runtime"
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
	"k8s.io/utils/ptr"
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
			return answer(http.StatusOK, <-s.next)
		}
		if s.old != "" && r.URL.Query().Get("resourceVersion") == "0" {
			return answer(http.StatusOK, s.old)
		}
		return answer(http.StatusOK, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[`+pod("a", 4, "n")+`]}`)
	}
	response.Body = silence{s.end, r.Context().Done()}
	return response, nil
}

// newOptionalMap returns a map of optional kinds.
func newOptionalMap(g *WithT, server http.RoundTripper) *Map {
	o := testOptions()
	o.Name, o.HTTPClient, o.Config = "optional-test", &http.Client{Transport: server}, &rest.Config{}
	o.Mapper = meta.NewDefaultRESTMapper(nil)
	o.Tuning = func(schema.GroupVersionKind) KindTuning { return KindTuning{Optional: ptr.To(true)} }
	var err error
	o.Served, err = NewServed(o.Config, o.HTTPClient, o.Logger)
	g.Expect(err).NotTo(HaveOccurred())
	m := NewMap(o)
	m.Go(o.Served.Run)
	return m
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

// heap returns the number of bytes of the heap that are in use.
func heap() int {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}
