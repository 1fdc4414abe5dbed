// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/note"
	"github.com/tarn-dev/tarn/internal/store"
)

// lostDeletion is the deletion of all Pods in the namespace ns, whose answer was lost.
func lostDeletion() note.Write {
	return note.Write{Kind: podKey.GroupVersionKind, Key: client.ObjectKey{Namespace: "ns"}, Outcome: note.Ambiguous}
}

// TestAnAmbiguousWriteOfBeforeTheFirstListWaitsForNoBookmark: the list was asked for before the write, and the kind
// is quiet, while the revision of the server grows with other kinds.
func TestAnAmbiguousWriteOfBeforeTheFirstListWaitsForNoBookmark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server := &restorable{first: podList(100, pod("gone", 90, "n"), pod("stays", 91, "n")), hold: make(chan struct{})}
		server.setList(150, pod("stays", 91, "n"))
		m, stop := ownWritesMap(t, server)
		entry, err := m.Get(t.Context(), podKey)
		g.Expect(err).NotTo(HaveOccurred())
		synctest.Wait()
		m.NoteWrite(lostDeletion())
		close(server.hold)
		g.Expect(entry.WaitForSync(t.Context())).To(Succeed())
		synctest.Wait()
		began := time.Now()
		_, err = readPod(t, entry, "stays")
		g.Expect(err).NotTo(HaveOccurred())
		_, err = readPod(t, entry, "gone")
		g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
		list := &corev1.PodList{}
		g.Expect(entry.Reader.List(t.Context(), list)).To(Succeed())
		g.Expect(list.Items).To(HaveLen(1))
		g.Expect(time.Since(began)).To(BeZero(), "nothing had to be waited for")
		stop()
	})
}

// TestAnAmbiguousWriteIsOfObjectsThatTheWatchHasNotBrought: another client has created an object just before, which
// the watch brings after the deletion, and before its end.
func TestAnAmbiguousWriteIsOfObjectsThatTheWatchHasNotBrought(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server := &restorable{}
		server.setList(100)
		m, entry, stop := syncedOwnWrites(t, g, server)
		before := server.lists
		server.setList(110)
		m.NoteWrite(lostDeletion())
		server.send(`{"type":"ADDED","object":` + pod("late", 101, "n") + `}`)
		for range 3 {
			_, err := readPod(t, entry, "late")
			g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
		}
		g.Expect(server.lists - before).To(Equal(1))
		server.send(`{"type":"ADDED","object":` + pod("later", 102, "n") + `}`)
		list := &corev1.PodList{}
		for range 3 {
			g.Expect(entry.Reader.List(t.Context(), list)).To(Succeed())
			g.Expect(list.Items).To(BeEmpty())
		}
		g.Expect(server.lists - before).To(Equal(2))

		server.send(`{"type":"ADDED","object":` + pod("latest", 103, "n") + `}`) // the list at 110 has none
		g.Expect(entry.Reader.List(t.Context(), list)).To(Succeed())
		g.Expect(list.Items).To(BeEmpty())
		_, err := readPod(t, entry, "latest")
		g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
		server.send(`{"type":"DELETED","object":` + pod("latest", 104, "n") + `}`)
		server.send(`{"type":"DELETED","object":` + pod("late", 105, "n") + `}`)
		server.send(`{"type":"DELETED","object":` + pod("later", 106, "n") + `}`)
		server.send(`{"type":"ADDED","object":` + pod("new", 120, "n") + `}`)
		_, err = readPod(t, entry, "new")
		g.Expect(err).NotTo(HaveOccurred())
		time.Sleep(time.Second)
		g.Expect(entry.pending.noted().Empty()).To(BeTrue(), "the watch has passed it")
		g.Expect(server.lists - before).To(Equal(2))
		stop()
	})
}

// TestAnAmbiguousWriteWhileAKindComesBack: its state is empty until the list is there, which was asked for before
// the write.
func TestAnAmbiguousWriteWhileAKindComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server := &hosting{end: make(chan struct{})}
		server.serves.Store(true)
		m := newOptionalMap(g, server)
		stop := running(t, m)
		entry, err := m.Get(t.Context(), podKey)
		g.Expect(err).NotTo(HaveOccurred())
		time.Sleep(2 * time.Minute)
		g.Expect(entry.WaitForSync(t.Context())).To(Succeed())
		server.serves.Store(false)
		server.end <- struct{}{}
		time.Sleep(2 * time.Minute)
		g.Expect(meta.IsNoMatchError(entry.WaitForSync(t.Context()))).To(BeTrue())

		server.next = make(chan string)
		server.serves.Store(true)
		time.Sleep(2 * time.Minute)
		g.Expect(server.lists.Load()).To(BeEquivalentTo(2), "a list is under way")
		m.NoteWrite(lostDeletion())
		server.next <- podList(5, pod("gone", 4, "n"))
		go func() {
			for {
				select {
				case server.next <- podList(9):
				case <-t.Context().Done():
					return
				}
			}
		}()
		g.Expect(entry.WaitForSync(t.Context())).To(Succeed())
		_, err = readPod(t, entry, "gone")
		g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
		stop()
	})
}

// paged is an API server whose list has pages that each take a while. The watch brings nothing.
type paged struct {
	pages int
	slow  time.Duration
	asked atomic.Int64
	hang  atomic.Bool // it does not answer lists
}

// RoundTrip implements http.RoundTripper.
func (s *paged) RoundTrip(r *http.Request) (*http.Response, error) {
	response := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r}
	query := r.URL.Query()
	if query.Get("watch") != "" {
		response.Body = idleBody{nil, r.Context().Done()}
		return response, nil
	}
	if s.asked.Add(1) == 1 { // the informer's
		response.Body = io.NopCloser(strings.NewReader(podList(100)))
		return response, nil
	}
	if s.hang.Load() {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	time.Sleep(s.slow)
	page, _ := strconv.Atoi(query.Get("continue"))
	next := ""
	if page++; page < s.pages {
		next = strconv.Itoa(page)
	}
	response.Body = io.NopCloser(strings.NewReader(fmt.Sprintf(
		`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"110","continue":"%s"},"items":[%s]}`, next, pod(fmt.Sprint("p", page), 105, "n"))))
	return response, nil
}

// TestAListOfALargeClusterTakesItsTime: no request takes long, and all of them do.
func TestAListOfALargeClusterTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server := &paged{pages: 20, slow: 4 * time.Second}
		m, entry, stop := syncedOwnWrites(t, g, server)
		m.NoteWrite(lostDeletion())
		list := &corev1.PodList{}
		g.Expect(entry.Reader.List(t.Context(), list)).To(Succeed())
		g.Expect(list.Items).To(HaveLen(20))

		server.hang.Store(true)
		m.NoteWrite(lostDeletion())
		err := entry.Reader.List(t.Context(), list)
		why := (*store.UnansweredError)(nil)
		g.Expect(errors.As(err, &why)).To(BeTrue(), "%v", err)
		g.Expect(why.GVK).To(Equal(podKey.GroupVersionKind))
		g.Expect(err).To(MatchError(ContainSubstring("no answer within 10s")))
		g.Expect(apierrors.IsServiceUnavailable(err)).To(BeTrue())
		server.hang.Store(false)
		g.Expect(entry.Reader.List(t.Context(), list)).To(Succeed())
		stop()
		time.Sleep(time.Minute) // a question to a server that sleeps ends after its request
	})
}
