// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"fmt"
	"net/http"
	goruntime "runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/note"
	"github.com/tarn-dev/tarn/internal/pending"
)

// wrote is a write of a Pod in the namespace ns, whose response is not the Pod.
func wrote(name string, revision uint64) note.Write {
	return note.Write{
		Kind: podKey.GroupVersionKind, Key: client.ObjectKey{Namespace: "ns", Name: name}, Outcome: note.Ambiguous, Revision: revision,
	}
}

// created is the creation of a Pod.
func created(name string, revision uint64) note.Write {
	write := wrote(name, revision)
	write.Outcome, write.UID = note.Shown, types.UID(name)
	write.Object = func(runtime.Object) (client.Object, error) {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID(name), ResourceVersion: fmt.Sprint(revision),
		}}, nil
	}
	return write
}

func ownWritesMap(t *testing.T, server http.RoundTripper) (m *Map, stop func()) {
	o := testOptions()
	o.Name, o.HTTPClient = "own-writes-test", &http.Client{Transport: server}
	m = NewMap(o)
	return m, running(t, m)
}

// syncedOwnWrites returns a map that runs, and its entry of Pods, which has synced and watches.
func syncedOwnWrites(t *testing.T, g *WithT, server http.RoundTripper) (m *Map, entry *MapEntry, stop func()) {
	t.Helper()
	m, stop = ownWritesMap(t, server)
	entry, err := m.Get(t.Context(), podKey)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(entry.WaitForSync(t.Context())).To(Succeed())
	synctest.Wait()
	return m, entry, stop
}

func readPod(t *testing.T, entry *MapEntry, name string) (*corev1.Pod, error) {
	found := &corev1.Pod{}
	return found, entry.Reader.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, found)
}

// TestTheFirstListIsNotOlderThanOwnWrites: the program writes, and reads the kind for the first time
// after that.
func TestTheFirstListIsNotOlderThanOwnWrites(t *testing.T) {
	for name, late := range map[string]bool{"a list of any version is old": false, "the first list is old whatever is asked for": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				server := &restorable{old: podList(100)}
				if late {
					server.first = server.old
				}
				server.setList(120, pod("written", 120, "n"))
				m, stop := ownWritesMap(t, server)
				m.NoteWrite(wrote("written", 120))
				entry, err := m.Get(t.Context(), podKey)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(entry.WaitForSync(t.Context())).To(Succeed())
				synctest.Wait()
				began := time.Now()
				found, err := readPod(t, entry, "written")
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(found.ResourceVersion).To(Equal("120"))
				g.Expect(time.Since(began)).To(BeNumerically("<", time.Second), "the server is asked if the watch is late")
				stop()
			})
		})
	}
}

// TestAnOwnWriteIsShownBeforeTheListAfterARestore: the versions of the API server have gone back, and the
// list that follows takes a while.
func TestAnOwnWriteIsShownBeforeTheListAfterARestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server := &restorable{}
		server.setList(100, pod("changed", 90, "before"))
		m, entry, stop := syncedOwnWrites(t, g, server)

		server.mu.Lock()
		server.hold = make(chan struct{})
		server.mu.Unlock()
		server.send(`{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"41"}}}`)
		m.NoteWrite(created("written", 42))
		_, err := readPod(t, entry, "written")
		g.Expect(err).NotTo(HaveOccurred())
		time.Sleep(time.Second)
		_, err = readPod(t, entry, "written")
		g.Expect(err).NotTo(HaveOccurred())

		server.setList(43) // it was deleted
		close(server.hold)
		time.Sleep(time.Minute)
		_, err = readPod(t, entry, "written")
		g.Expect(client.IgnoreNotFound(err)).To(Succeed())
		g.Expect(err).To(HaveOccurred())
		stop()
	})
}

// TestAnOwnWriteIsShownBeforeTheSignOfARestore: nothing has told yet that the versions have gone back.
func TestAnOwnWriteIsShownBeforeTheSignOfARestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server := &restorable{}
		server.setList(100)
		m, entry, stop := syncedOwnWrites(t, g, server)
		server.setList(42, pod("written", 42, "n"))
		m.NoteWrite(created("written", 42))
		for range 2 {
			_, err := readPod(t, entry, "written")
			g.Expect(err).NotTo(HaveOccurred())
			time.Sleep(time.Second)
		}
		server.send(`{"type":"ADDED","object":` + pod("written", 42, "n") + `}`)
		for range 60 {
			_, err := readPod(t, entry, "written")
			g.Expect(err).NotTo(HaveOccurred())
			time.Sleep(time.Second)
		}
		entries, _ := entry.pending.noted().Size()
		g.Expect(entries).To(BeZero())
		stop()
	})
}

// TestAWriteWithoutAVersionEndsWithABookmark, though the watch has never shown the object, and nobody has read it.
func TestAWriteWithoutAVersionEndsWithABookmark(t *testing.T) {
	for name, write := range map[string]note.Write{
		"a deletion by name":           {Outcome: note.Gone, UID: "deleted"},
		"an eviction or a lost answer": {Outcome: note.Ambiguous},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				server := &restorable{}
				server.setList(100)
				m, entry, stop := syncedOwnWrites(t, g, server)
				for _, name := range []string{"a", "b", "c"} {
					write.Kind, write.Key = podKey.GroupVersionKind, client.ObjectKey{Namespace: "ns", Name: name}
					m.NoteWrite(write)
				}
				before := server.lists
				server.setList(103)
				time.Sleep(20 * time.Second)
				server.send(`{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"103"}}}`)
				time.Sleep(time.Second)
				entries, _ := entry.pending.noted().Size()
				g.Expect(entries).To(BeZero())
				_, err := readPod(t, entry, "c")
				g.Expect(apierrors.IsNotFound(err)).To(BeTrue())
				g.Expect(server.lists-before).To(Equal(1), "the server was asked once for all")
				g.Expect(entry.pending.unconfirmed.Load()).To(BeZero())
				stop()
			})
		})
	}
}

// TestATransformThatPanicsInAQuestionIsAnErrorOfTheRead, and one that ends its goroutine, too.
func TestATransformThatPanicsInAQuestionIsAnErrorOfTheRead(t *testing.T) {
	handlers := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = nil // they would print the stack
	defer func() { utilruntime.ErrorHandlers = handlers }()
	for text, end := range map[string]func(){
		"panicked: out of order": func() { panic("out of order") },
		"ended its goroutine":    goruntime.Goexit,
	} {
		synctest.Test(t, func(t *testing.T) {
			g := NewWithT(t)
			server := &restorable{}
			server.setList(100)
			o := testOptions()
			o.Name, o.HTTPClient = "own-writes-test", &http.Client{Transport: server}
			o.Transform = func(any) (any, error) {
				end()
				return nil, nil
			}
			m := NewMap(o)
			stop := running(t, m)
			entry, err := m.Get(t.Context(), podKey)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(entry.WaitForSync(t.Context())).To(Succeed())
			write := wrote("written", 0)
			write.Outcome = note.Ambiguous
			m.NoteWrite(write)
			server.setList(101, pod("written", 101, "n"))
			for range 2 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				err = entry.Reader.Get(ctx, client.ObjectKey{Namespace: "ns", Name: "written"}, &corev1.Pod{})
				cancel()
				g.Expect(err).To(MatchError(ContainSubstring("the transform of " + entry.String() + " " + text)))
			}
			stop()
		})
	}
}

// TestALogMayTakeALockOfAWriterOrAReader: what is logged of own writes is logged by neither, and with no lock of ours held.
func TestALogMayTakeALockOfAWriterOrAReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		lock := make(chan struct{}, 1) // as a mutex, and time goes on for those that wait
		var logged atomic.Int64
		server := &restorable{}
		server.setList(100)
		o := testOptions()
		o.Name, o.HTTPClient, o.OwnWrites = "own-writes-test", &http.Client{Transport: server}, pending.NewBudget(-1)
		o.Logger = funcr.New(func(_, text string) {
			lock <- struct{}{}
			defer func() { <-lock }()
			if strings.Contains(text, "no room") || strings.Contains(text, "no longer shown") {
				logged.Add(1)
			}
		}, funcr.Options{})
		m := NewMap(o)
		stop := running(t, m)
		entry, err := m.Get(t.Context(), podKey)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(entry.WaitForSync(t.Context())).To(Succeed())
		lock <- struct{}{}
		for n, name := range []string{"a", "b", "c"} {
			write := created(name, 101+uint64(n))
			write.Bytes = 1000
			m.NoteWrite(write)
		}
		_, err = readPod(t, entry, "c")
		g.Expect(err).NotTo(HaveOccurred())
		time.Sleep(10 * time.Minute)
		<-lock
		time.Sleep(time.Second)
		g.Expect(logged.Load()).To(BeNumerically(">=", 2), "that there is no room, and what has ended")
		g.Expect(entry.pending.noted().Empty()).To(BeTrue())
		stop()
	})
}

// TestWhatTheCacheNeverHoldsIsNotNoted: reads of it wait for nothing.
func TestWhatTheCacheNeverHoldsIsNotNoted(t *testing.T) {
	g := NewWithT(t)
	o := testOptions()
	o.Name = "own-writes-outside-test"
	o.Selector.Field = fields.OneTermEqualSelector("metadata.name", "held")
	o.Selector.Label = labels.SelectorFromSet(labels.Set{"app": "x"})
	m := NewMap(o)
	entry, err := m.Get(t.Context(), podKey)
	g.Expect(err).NotTo(HaveOccurred())
	for _, revision := range []uint64{0, 10} {
		write := wrote("outside", revision)
		m.NoteWrite(write)
		g.Expect(entry.pending.noted().Empty()).To(BeTrue())
	}
	leaving := wrote("held", 10)
	leaving.Outcome, leaving.UID = note.Ambiguous, "1"
	leaving.Metadata = &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "held"}}
	m.NoteWrite(leaving)
	g.Expect(entry.pending.noted().All(pending.Target{All: true}, 2)).To(ConsistOf(HaveField("Outcome", note.Hidden)))
	leaving.Metadata.Labels, leaving.Revision = map[string]string{"app": "x"}, 11
	m.NoteWrite(leaving)
	g.Expect(entry.pending.noted().All(pending.Target{All: true}, 2)).To(ConsistOf(HaveField("Outcome", note.Ambiguous)))

	m.Abandon()
	m.NoteWrite(leaving)
	g.Expect(entry.pending.noted().Empty()).To(BeTrue(), "an abandoned map keeps nothing")
}
