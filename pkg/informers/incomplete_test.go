// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
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
	toolscache "k8s.io/client-go/tools/cache"
)

// incomplete is an API server whose discovery does not know of Pods for some answers, as that of a server that has
// just started.
type incomplete struct {
	announcing
	lacking atomic.Int64 // answers from now on that lack Pods
	code    int          // of these answers: 404, or 200 for a list of other kinds
}

// RoundTrip implements http.RoundTripper.
func (s *incomplete) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path != "/api/v1" || s.lacking.Add(-1) < 0 {
		return s.announcing.RoundTrip(r)
	}
	s.asked.Add(1)
	body := `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[{"name":"nodes","kind":"Node"}]}`
	if s.code != http.StatusOK {
		body = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
	}
	return &http.Response{
		StatusCode: s.code, Header: http.Header{"Content-Type": {"application/json"}}, Request: r, Body: io.NopCloser(strings.NewReader(body)),
	}, nil
}

// listed runs a map with Pods that are listed, and returns what its handler was told.
func (s *incomplete) listed(t *testing.T, g *WithT) (entry *MapEntry, deleted *atomic.Int64, lines func() []string) {
	s.serves.Store(true)
	o, lines := noted()
	entry, err := runningMap(t, optionalOptions(g, s, o)).Get(t.Context(), podKey)
	g.Expect(err).NotTo(HaveOccurred())
	deleted = &atomic.Int64{}
	_, err = entry.Informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{DeleteFunc: func(any) { deleted.Add(1) }})
	g.Expect(err).NotTo(HaveOccurred())
	time.Sleep(time.Minute)
	g.Expect(entry.WaitForSync(t.Context())).To(Succeed())
	lines()
	return entry, deleted, lines
}

// TestOneIncompleteAnswerOfDiscoveryEndsNothing: nobody has deleted the objects.
func TestOneIncompleteAnswerOfDiscoveryEndsNothing(t *testing.T) {
	for _, code := range []int{http.StatusOK, http.StatusNotFound} {
		for _, event := range []string{crdEvent("MODIFIED", 6), strings.Replace(crdEvent("DELETED", 6), "pods", "others", 1)} {
			t.Run(fmt.Sprint(code, " ", strings.Contains(event, "others")), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g := NewWithT(t)
					server := &incomplete{announcing: announcing{hosting: hosting{end: make(chan struct{})}, crds: make(chan string)}, code: code}
					entry, deleted, lines := server.listed(t, g)
					for range 3 {
						server.lacking.Store(1)
						server.crds <- event
						time.Sleep(30 * time.Second)
						g.Expect(entry.WaitForSync(t.Context())).To(Succeed())
					}
					g.Expect(deleted.Load()).To(BeZero())
					g.Expect(server.hosting.lists.Load()).To(BeEquivalentTo(1))
					g.Expect(lines()).To(BeEmpty())
				})
			})
		}
	}
}

// TestHandlersLearnSoonThatAKindHasGone: the API server ends the watch, or leaves it open.
func TestHandlersLearnSoonThatAKindHasGone(t *testing.T) {
	for _, ends := range []bool{false, true} {
		t.Run(fmt.Sprint("the watch ends: ", ends), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				server := &incomplete{announcing: announcing{hosting: hosting{end: make(chan struct{})}, crds: make(chan string)}}
				entry, deleted, lines := server.listed(t, g)
				asked := server.asked.Load()
				server.serves.Store(false)
				if ends {
					server.end <- struct{}{}
				}
				server.crds <- crdEvent("DELETED", 6)
				time.Sleep(50 * time.Millisecond)
				synctest.Wait()
				g.Expect(meta.IsNoMatchError(entry.WaitForSync(t.Context()))).To(BeTrue())
				g.Expect(deleted.Load()).To(BeEquivalentTo(1))
				time.Sleep(time.Minute)
				g.Expect(len(lines())).To(And(BeNumerically(">=", 1), BeNumerically("<=", 3)))
				g.Expect(server.asked.Load() - asked).To(BeNumerically("<=", 4))
			})
		})
	}
}
