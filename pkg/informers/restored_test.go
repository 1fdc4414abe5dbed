// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/tarn-dev/tarn/internal/inspected"
)

// restorable is an API server whose list and whose watch are what a test says.
type restorable struct {
	mu    sync.Mutex
	list  string
	first string         // the answer to the first list, whatever is asked for; empty for list
	old   string         // the answer to a list of any version, as from a cache; empty for list
	watch *io.PipeWriter // the newest watch
	lists int
	hold  chan struct{} // lists wait until it is closed; nil if they do not
	down  bool          // every request fails
}

// RoundTrip implements http.RoundTripper.
func (s *restorable) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	hold := s.hold
	s.mu.Unlock()
	if hold != nil && r.URL.Query().Get("watch") == "" {
		<-hold
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil, errDown
	}
	response := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r}
	if r.URL.Query().Get("watch") == "" {
		s.lists++
		response.Body = io.NopCloser(strings.NewReader(s.answer(r)))
		return response, nil
	}
	body, w := io.Pipe()
	s.watch = w
	response.Body = body
	return response, nil
}

// answer returns the answer to a list. It is called with the lock.
func (s *restorable) answer(r *http.Request) string {
	switch {
	case s.lists == 1 && s.first != "":
		return s.first
	case r.URL.Query().Get("resourceVersion") == "0" && s.old != "":
		return s.old
	}
	return s.list
}

func (s *restorable) send(event string) {
	s.mu.Lock()
	w := s.watch
	s.mu.Unlock()
	_, _ = io.WriteString(w, event+"\n")
	synctest.Wait()
}

func (s *restorable) setList(version int, pods ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = podList(version, pods...)
}

func podList(version int, pods ...string) string {
	return fmt.Sprintf(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"%d"},"items":[%s]}`, version, strings.Join(pods, ","))
}

// pod is one in JSON. Its node says what it is like.
func pod(name string, version int, node string) string {
	return fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"%s","namespace":"ns","uid":"%s","resourceVersion":"%d"},"spec":{"nodeName":"%s"}}`, name, name, version, node)
}

// TestAVersionThatGoesBackLeadsToAList: etcd was restored from a backup. One object was deleted since,
// one was written since, and one has, by chance, the version that another state of it had.
func TestAVersionThatGoesBackLeadsToAList(t *testing.T) {
	for name, sign := range map[string]string{
		"an event":   `{"type":"MODIFIED","object":` + pod("changed", 41, "backup") + `}`,
		"a bookmark": `{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"41"}}}`,
		"a deletion": `{"type":"DELETED","object":` + pod("changed", 41, "backup") + `}`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				server, said := &restorable{}, []string{}
				server.setList(100, pod("changed", 90, "before"), pod("gone", 95, "before"), pod("twice", 38, "before"))
				o := testOptions()
				o.Name, o.HTTPClient = "restored-test", &http.Client{Transport: server}
				o.Logger = funcr.New(func(_, args string) { said = append(said, args) }, funcr.Options{})
				m := NewMap(o)
				stop := running(t, m)
				entry, err := m.Get(t.Context(), podKey)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(entry.WaitForSync(t.Context())).To(Succeed())
				var told []string
				_, err = entry.Informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
					AddFunc: func(obj any) { told = append(told, "add "+obj.(*corev1.Pod).Name) },
					UpdateFunc: func(was, is any) {
						told = append(told, fmt.Sprintf("update %s from %s to %s", is.(*corev1.Pod).Name, was.(*corev1.Pod).Spec.NodeName, is.(*corev1.Pod).Spec.NodeName))
					},
					DeleteFunc: func(obj any) { told = append(told, "delete "+obj.(toolscache.DeletedFinalStateUnknown).Key) },
				})
				g.Expect(err).NotTo(HaveOccurred())
				synctest.Wait()
				g.Expect(told).To(ConsistOf("add changed", "add gone", "add twice"))
				told = nil

				server.setList(41, pod("changed", 30, "backup"), pod("new", 40, "backup"), pod("twice", 38, "backup"))
				server.send(sign)
				time.Sleep(time.Minute)
				synctest.Wait()
				g.Expect(server.lists).To(Equal(2))
				g.Expect(told).To(Equal([]string{
					"update changed from before to backup", "delete ns/gone", "add new", "update twice from before to backup",
				}))
				g.Expect(said).To(ContainElement(And(ContainSubstring("went back"), ContainSubstring(`"from"=100 "to"=41`))))

				server.send(`{"type":"MODIFIED","object":` + pod("new", 42, "later") + `}`)
				g.Expect(told).To(ContainElement("update new from backup to later"), "it goes on")
				g.Expect(server.lists).To(Equal(2))
				stop()
			})
		})
	}
}

// TestVersionsWithoutOrderAreNoReasonToListForEver: some aggregated API servers give each object
// versions of its own.
func TestVersionsWithoutOrderAreNoReasonToListForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server := &restorable{}
		server.setList(100, pod("a", 100, "n"))
		o := testOptions()
		o.Name, o.HTTPClient = "unordered-test", &http.Client{Transport: server}
		m := NewMap(o)
		stop := running(t, m)
		entry, err := m.Get(t.Context(), podKey)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(entry.WaitForSync(t.Context())).To(Succeed())
		synctest.Wait()
		for n := range 5 {
			server.send(`{"type":"ADDED","object":` + pod(fmt.Sprint("b", n), 7-n, "n") + `}`)
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		g.Expect(server.lists).To(Equal(2), "the first event leads to a list, which is not older")
		stop()
	})
}

// TestTheAgeOfAnInformerIsAConditionOfReads, and of being ready.
func TestTheAgeOfAnInformerIsAConditionOfReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server := &restorable{}
		server.setList(100)
		o := testOptions()
		o.Name, o.HTTPClient = "age-test", &http.Client{Transport: server}
		o.Tuning = func(schema.GroupVersionKind) KindTuning { return KindTuning{WatchSilence: 24 * 365 * time.Hour} } // no watch is ended
		m := NewMap(o)
		entry, err := m.Get(t.Context(), podKey)
		g.Expect(err).NotTo(HaveOccurred())
		_, known := entry.Age()
		g.Expect(known).To(BeFalse())
		stop := running(t, m)
		g.Expect(entry.WaitForSync(t.Context())).To(Succeed())
		synctest.Wait()
		entry.waiting.idleTimeout = 3 * time.Minute

		time.Sleep(90 * time.Second)
		g.Expect(entry.fresh(90*time.Second, false)).To(Succeed())
		var stale *StaleError
		g.Expect(entry.fresh(time.Minute, false)).To(BeAssignableToTypeOf(stale))
		g.Expect(entry.Stalled()).To(Succeed())
		time.Sleep(9 * time.Minute)
		g.Expect(entry.Stalled()).To(Succeed(), "a watch of a server without bookmarks may be silent for so long")
		time.Sleep(time.Minute)
		g.Expect(entry.Stalled()).To(MatchError(ContainSubstring("the cache of Pod (v1) was last told anything 11m30s ago, and expected something within 11m0s")))
		g.Expect(entry.Stuck()).To(Succeed())
		time.Sleep(4 * time.Minute)
		g.Expect(entry.Stuck()).To(HaveOccurred())

		server.send(`{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"101"}}}`)
		g.Expect(entry.Stalled()).To(Succeed())
		g.Expect(entry.Stuck()).To(Succeed())
		age, known := entry.Age()
		g.Expect(known).To(BeTrue())
		g.Expect(age).To(BeZero())
		stop()
	})
}

// TestPhases goes through the life of an informer. The phases of kinds that are optional, forbidden or
// have a function that fails are tested with those.
func TestPhases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server := &restorable{hold: make(chan struct{})}
		server.setList(100, pod("a", 100, "n"))
		o := testOptions()
		o.Name, o.HTTPClient = "phases-test", &http.Client{Transport: server}
		o.Tuning = func(schema.GroupVersionKind) KindTuning { return KindTuning{WatchSilence: 24 * 365 * time.Hour} } // no watch is ended
		m := NewMap(o)
		entry, err := m.Get(t.Context(), podKey)
		g.Expect(err).NotTo(HaveOccurred())
		is := func(want inspected.Phase) {
			t.Helper()
			synctest.Wait()
			phase, _ := entry.phase()
			g.Expect(phase).To(Equal(want))
		}
		stop := running(t, m)
		is(inspected.Lists)
		close(server.hold)
		g.Expect(entry.WaitForSync(t.Context())).To(Succeed())
		is(inspected.Synced)

		entry.waiting.idleTimeout = 3 * time.Minute
		time.Sleep(4 * time.Minute)
		is(inspected.Silent)
		time.Sleep(8 * time.Minute)
		is(inspected.Stalled)
		server.send(`{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"101"}}}`)
		is(inspected.Synced)

		server.setDown(true)
		time.Sleep(2 * time.Minute)
		is(inspected.Interrupted)
		server.setDown(false)
		time.Sleep(2 * time.Minute)
		is(inspected.Synced)
		stop()
	})
}

// setDown ends the watch, and lets every request fail.
func (s *restorable) setDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down = down; down {
		_ = s.watch.CloseWithError(errDown)
	}
}

var errDown = errors.New("the server is down")
