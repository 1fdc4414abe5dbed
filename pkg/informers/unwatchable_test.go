// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/tarn-dev/tarn/internal/inspected"
)

// unwatchable is an API server that serves Pods without the verb watch, as metrics.k8s.io serves PodMetrics.
type unwatchable struct {
	announcing
	verbs   string       // what discovery says of Pods, in JSON; empty if it says nothing of verbs
	lists   bool         // Pods can be listed
	may     atomic.Bool  // they can be watched
	watches atomic.Int64 // that were refused
}

func newUnwatchable(verbs string, lists bool) *unwatchable {
	s := &unwatchable{verbs: verbs, lists: lists, announcing: announcing{hosting: hosting{end: make(chan struct{})}, crds: make(chan string)}}
	s.serves.Store(true)
	return s
}

// RoundTrip implements http.RoundTripper.
func (s *unwatchable) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := func(code int, body string) (*http.Response, error) {
		return &http.Response{
			StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Request: r, Body: io.NopCloser(strings.NewReader(body)),
		}, nil
	}
	const refused = `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"the server does not allow this method on the requested resource","reason":"MethodNotAllowed","code":405}`
	watch := r.URL.Query().Get("watch") != ""
	switch path := r.URL.Path; {
	case path == "/api/v1" && !s.may.Load():
		s.asked.Add(1)
		verbs := ""
		if s.verbs != "" {
			verbs = `,"verbs":` + s.verbs
		}
		return answer(http.StatusOK, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[{"name":"pods","kind":"Pod","namespaced":true`+verbs+`}]}`)
	case path == "/api/v1/pods" && watch && !s.may.Load():
		s.watches.Add(1)
		return answer(http.StatusMethodNotAllowed, refused)
	case path == "/api/v1/pods" && !watch && !s.lists:
		return answer(http.StatusMethodNotAllowed, refused)
	}
	return s.announcing.RoundTrip(r)
}

// noted returns options whose log is counted: the lines that name Pods.
func noted() (o Options, lines func() []string) {
	all := make(chan string, 10000)
	o = testOptions()
	o.EnableWatchBookmarks = true
	o.Logger = funcr.New(func(_, line string) { all <- line }, funcr.Options{})
	return o, func() (found []string) {
		for range len(all) {
			if line := <-all; strings.Contains(line, "Pod") || strings.Contains(line, "Failed to watch") {
				found = append(found, line)
			}
		}
		return found
	}
}

// TestAnOptionalKindThatCannotBeWatchedIsDormantWithItsVerbs: the RESTMapper knows it, or does not.
func TestAnOptionalKindThatCannotBeWatchedIsDormantWithItsVerbs(t *testing.T) {
	for name, known := range map[string]bool{"mapped": true, "unmapped": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				server := newUnwatchable(`["get","list"]`, true)
				o, lines := noted()
				o = optionalOptions(g, server, o)
				if known {
					o.Mapper = newMapper()
				}
				m := runningMap(t, o)
				entry, err := m.Get(t.Context(), podKey)
				g.Expect(err).NotTo(HaveOccurred())
				var told atomic.Int64
				_, err = entry.Informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
					AddFunc: func(any) { told.Add(1) }, DeleteFunc: func(any) { told.Add(1) },
				})
				g.Expect(err).NotTo(HaveOccurred())
				time.Sleep(time.Minute)
				err = entry.WaitForSync(t.Context())
				reason, ok := err.(*NotSyncedError)
				g.Expect(ok).To(BeTrue(), "%v", err)
				g.Expect(reason.Cause).To(Equal(NotWatchable))
				g.Expect(apierrors.IsMethodNotSupported(err)).To(BeTrue())
				g.Expect(err).To(MatchError(And(ContainSubstring("Pod (v1)"), ContainSubstring("get, list"), ContainSubstring("DisableFor"))))
				phase, why := entry.phase()
				g.Expect(phase).To(Equal(inspected.Dormant))
				g.Expect(why).To(MatchError(err.Error()))
				g.Expect(told.Load()).To(BeZero())

				asked, watches := server.asked.Load(), server.watches.Load()
				g.Expect(watches).To(BeNumerically("<=", 1))
				time.Sleep(4 * time.Minute) // the metadata of CRDs is listed again after five
				g.Expect(server.asked.Load()).To(Equal(asked))
				g.Expect(server.watches.Load()).To(Equal(watches))
				g.Expect(len(lines())).To(And(BeNumerically(">=", 1), BeNumerically("<=", 2)))

				server.may.Store(true) // another version of the server is there
				server.crds <- crdEvent("MODIFIED", 6)
				time.Sleep(time.Second)
				g.Expect(entry.WaitForSync(t.Context())).To(Succeed())
				g.Expect(told.Load()).To(BeEquivalentTo(1))
			})
		})
	}
}

// TestAKindThatFitsLaterIsSeen: the server that an APIService leads to is updated, and the APIService is not changed.
func TestAKindThatFitsLaterIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server := newUnwatchable(`["get","list"]`, true)
		server.leads = true
		o, lines := noted()
		m := runningMap(t, optionalOptions(g, server, o))
		entry, err := m.Get(t.Context(), podKey)
		g.Expect(err).NotTo(HaveOccurred())
		time.Sleep(10 * time.Minute)
		g.Expect(apierrors.IsMethodNotSupported(entry.WaitForSync(t.Context()))).To(BeTrue())
		server.may.Store(true)
		time.Sleep(time.Minute + 10*time.Second)
		g.Expect(entry.WaitForSync(t.Context())).To(Succeed())

		lines()
		server.may.Store(false) // one of two servers is of before
		server.crds <- crdEvent("MODIFIED", 6)
		time.Sleep(50 * time.Millisecond)
		server.may.Store(true)
		time.Sleep(time.Minute)
		g.Expect(entry.WaitForSync(t.Context())).To(Succeed())
		g.Expect(lines()).To(BeEmpty(), "the second look says that it fits")
	})
}

// other is an API server that serves the version of the group, and Pods later.
type other struct{ announcing }

// RoundTrip implements http.RoundTripper.
func (s *other) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path != "/api/v1" || s.serves.Load() {
		return s.announcing.RoundTrip(r)
	}
	s.asked.Add(1)
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(strings.NewReader(`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[{"name":"nodes","kind":"Node"}]}`)),
	}, nil
}

// TestAKindThatItsServerServesLaterIsSeen: the server is updated as above, and served other kinds before.
func TestAKindThatItsServerServesLaterIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server := &other{announcing{hosting: hosting{end: make(chan struct{})}, crds: make(chan string), leads: true}}
		entry, err := runningMap(t, optionalOptions(g, server, testOptions())).Get(t.Context(), podKey)
		g.Expect(err).NotTo(HaveOccurred())
		time.Sleep(time.Minute)
		asked := server.asked.Load()
		time.Sleep(3 * time.Minute) // the metadata of CRDs is listed again after five
		g.Expect(server.asked.Load()-asked).To(BeNumerically("<=", 4), "once a minute")
		g.Expect(meta.IsNoMatchError(entry.WaitForSync(t.Context()))).To(BeTrue())
		server.serves.Store(true)
		time.Sleep(time.Minute + 10*time.Second)
		g.Expect(entry.WaitForSync(t.Context())).To(Succeed())
	})
}

// TestAnOptionalKindWhoseWatchIsRefusedIsTriedAgainWithALineEach: discovery says nothing of its verbs.
func TestAnOptionalKindWhoseWatchIsRefusedIsTriedAgainWithALineEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server := newUnwatchable("", true)
		o, lines := noted()
		m := runningMap(t, optionalOptions(g, server, o))
		entry, err := m.Get(t.Context(), podKey)
		g.Expect(err).NotTo(HaveOccurred())
		time.Sleep(10 * time.Minute)
		asked, watches := server.asked.Load(), server.watches.Load()
		lines()
		err = entry.WaitForSync(t.Context())
		g.Expect(apierrors.IsMethodNotSupported(err)).To(BeTrue(), "%v", err)
		g.Expect(err).To(MatchError(And(ContainSubstring(string(NotWatchable)), ContainSubstring("DisableFor"))))
		time.Sleep(time.Hour)
		tries := server.watches.Load() - watches
		g.Expect(tries).To(And(BeNumerically(">", 30), BeNumerically("<", 250)))
		g.Expect(lines()).To(HaveLen(int(tries)), "a line for each")
		g.Expect(server.asked.Load()-asked).To(BeNumerically("<=", 150), "only after the lists of CRDs")
		server.may.Store(true)
		time.Sleep(2 * time.Minute)
		g.Expect(entry.WaitForSync(t.Context())).To(Succeed())
	})
}

// TestAKindThatCannotBeWatchedHasACause: whoever reads it gets what was listed, as with client-go, and who has
// another policy the cause.
func TestAKindThatCannotBeWatchedHasACause(t *testing.T) {
	for _, policy := range []FailurePolicy{WaitOnFailure, Isolate} {
		for i := range 4 {
			lists, streams := i&1 == 0, i&2 == 0
			t.Run(fmt.Sprint(policy, " lists: ", lists, " streams: ", streams), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g := NewWithT(t)
					server := newUnwatchable(`["get","list"]`, lists)
					o := testOptions()
					o.EnableWatchBookmarks = streams
					o.HTTPClient, o.Config = &http.Client{Transport: server}, &rest.Config{}
					o.Tuning = func(schema.GroupVersionKind) KindTuning { return KindTuning{OnFailure: policy} }
					m := runningMap(t, o)
					entry, err := m.Get(t.Context(), podKey)
					g.Expect(err).NotTo(HaveOccurred())
					time.Sleep(10 * time.Minute)
					reason := entry.NotSynced()
					g.Expect(reason).NotTo(BeNil())
					g.Expect(reason.Cause).To(Equal(NotWatchable))
					g.Expect(reason).To(MatchError(ContainSubstring("DisableFor")))
					phase, _ := entry.phase()
					g.Expect(phase).To(Equal(inspected.NotSynced))
					err = entry.WaitForSync(t.Context())
					if policy == WaitOnFailure && lists {
						g.Expect(err).NotTo(HaveOccurred())
					} else {
						g.Expect(apierrors.IsMethodNotSupported(err)).To(BeTrue(), "%v", err)
					}
					g.Expect(server.asked.Load()).To(BeZero(), "nobody needs discovery")
				})
			})
		}
	}
}

// runningMap runs a map until the test ends.
func runningMap(t *testing.T, o Options) *Map {
	m := NewMap(o)
	if o.Served != nil {
		m.Go(o.Served.Run)
	}
	running(t, m)
	return m
}

// TestGetInformerOfAnIsolatedKindSucceeds: it has synced, and reads of it fail.
func TestGetInformerOfAnIsolatedKindSucceeds(t *testing.T) {
	transforming := &restorable{}
	transforming.setList(100)
	for name, server := range map[string]http.RoundTripper{
		"it cannot be watched": newUnwatchable(`["get","list"]`, true), "the transform fails": transforming,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				o := testOptions()
				o.HTTPClient = &http.Client{Transport: server}
				o.Tuning = func(schema.GroupVersionKind) KindTuning { return KindTuning{OnFailure: Isolate} }
				if server == transforming {
					o.Transform = func(any) (any, error) { return nil, errors.New("no") }
				}
				entry, err := runningMap(t, o).Get(t.Context(), podKey)
				g.Expect(err).NotTo(HaveOccurred())
				time.Sleep(time.Minute)
				if server == transforming {
					transforming.send(`{"type":"ADDED","object":` + pod("a", 101, "n") + `}`)
				}
				g.Expect(entry.synced()).To(BeTrue(), "%v", entry.NotSynced())
				g.Expect(entry.WaitForSync(t.Context())).NotTo(Succeed())
				g.Expect(entry.Want(t.Context(), true)).To(Succeed())
			})
		})
	}
}

// TestAnIsolatedKindIsLoggedWhenItsCauseChanges, and not at each try, nor for each controller that waits.
func TestAnIsolatedKindIsLoggedWhenItsCauseChanges(t *testing.T) {
	for _, storage := range []Storage{Flat, OneWatch} {
		t.Run(string(storage), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				server := newUnwatchable(`["get"]`, false)
				o, lines := noted()
				o.HTTPClient, o.Config = &http.Client{Transport: server}, &rest.Config{}
				o.Tuning = func(schema.GroupVersionKind) KindTuning { return KindTuning{OnFailure: Isolate, Storage: storage} }
				m := runningMap(t, o)
				_, err := m.Get(t.Context(), podKey)
				g.Expect(err).NotTo(HaveOccurred())
				for range 8 {
					g.Expect(m.WaitForCacheSync(t.Context())).To(BeTrue())
				}
				time.Sleep(10 * time.Minute)
				g.Expect(lines()).To(ConsistOf(ContainSubstring("Not waiting"), ContainSubstring("Failed to watch")))
			})
		})
	}
}

// TestAKindThatIsAbsentAtTheStartIsLoggedOnce: nothing changes, and nobody reads it.
func TestAKindThatIsAbsentAtTheStartIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server := &announcing{hosting: hosting{end: make(chan struct{})}, crds: make(chan string)}
		o, lines := noted()
		_, err := runningMap(t, optionalOptions(g, server, o)).Get(t.Context(), podKey)
		g.Expect(err).NotTo(HaveOccurred())
		time.Sleep(10 * time.Minute)
		g.Expect(lines()).To(ConsistOf(ContainSubstring("A kind is not served: it is cached when it is")))
	})
}
