// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	goruntime "runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
)

// piped returns the ListerWatchers of Pods, typed and unstructured, of a server whose watch sends
// what is written.
func piped(g Gomega, answer func() io.ReadCloser, each func(watch.Event) watch.Event) map[string]toolscache.ListerWatcherWithContext {
	scheme := runtime.NewScheme()
	g.Expect(corev1.AddToScheme(scheme)).To(Succeed())
	target := Target{Config: &rest.Config{Host: "http://server.example.com"}, Scheme: scheme, Kind: podKind, Resource: podResource}
	target.HTTPClient = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {runtime.ContentTypeJSON}}, Request: r, Body: answer()}, nil
	})}
	typed, err := Structured(target)
	g.Expect(err).NotTo(HaveOccurred())
	untyped, err := Unstructured(target)
	g.Expect(err).NotTo(HaveOccurred())
	return map[string]toolscache.ListerWatcherWithContext{
		"typed":        toolscache.ToListerWatcherWithContext(New(typed, Options{Each: each})),
		"unstructured": toolscache.ToListerWatcherWithContext(New(untyped, Options{Each: each})),
	}
}

func podEvent(kind watch.EventType, name string) string {
	return fmt.Sprintf(`{"type":%q,"object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":%q}}}`+"\n", kind, name)
}

// goroutines returns how many there are when those of a bubble that are ending have ended.
func goroutines() int {
	synctest.Wait()
	least := goruntime.NumGoroutine()
	for range 1000 {
		goruntime.Gosched()
		least = min(least, goruntime.NumGoroutine())
	}
	return least
}

// TestAWatchReadsItsStreamInOneGoroutine: from the stream to the Reflector. client-go's watch has
// one, too.
func TestAWatchReadsItsStreamInOneGoroutine(t *testing.T) {
	for _, representation := range []string{"typed", "unstructured"} {
		t.Run(representation, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				stream, sent := io.Pipe()
				lw := piped(g, func() io.ReadCloser { return stream }, func(e watch.Event) watch.Event {
					g.Expect(e.Type).NotTo(Equal(watch.Error), "the end of a watch that was stopped is no failure")
					return e
				})[representation]
				before := goroutines()
				w, err := lw.WatchWithContext(t.Context(), metav1.ListOptions{})
				g.Expect(err).NotTo(HaveOccurred())
				for i := range 3 {
					_, err := io.WriteString(sent, podEvent(watch.Added, fmt.Sprint("pod", i)))
					g.Expect(err).NotTo(HaveOccurred())
					e := <-w.ResultChan()
					g.Expect(e.Type).To(Equal(watch.Added))
					g.Expect(e.Object.(metav1.Object).GetName()).To(Equal(fmt.Sprint("pod", i)))
					g.Expect(goroutines() - before).To(BeNumerically("<=", 1))
				}
				w.Stop()
				_, err = io.WriteString(sent, "{")
				g.Expect(err).To(MatchError(io.ErrClosedPipe))
				g.Expect(goroutines()).To(BeNumerically("<=", before))
			})
		})
	}
}

// TestAWatchEndsAsItsStreamDoes: with an error event if the stream cannot be read, and without one
// if the connection was closed.
func TestAWatchEndsAsItsStreamDoes(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		error bool
	}{
		"end":            {io.EOF, false},
		"broken off":     {io.ErrUnexpectedEOF, false},
		"reset":          {errors.New("read: connection reset by peer"), false},
		"timeout":        {context.DeadlineExceeded, false},
		"something else": {errors.New("broken"), true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				stream, sent := io.Pipe()
				w, err := piped(g, func() io.ReadCloser { return stream }, asItIs)["typed"].WatchWithContext(t.Context(), metav1.ListOptions{})
				g.Expect(err).NotTo(HaveOccurred())
				_, err = io.WriteString(sent, podEvent(watch.Added, "a"))
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect((<-w.ResultChan()).Type).To(Equal(watch.Added))
				_ = sent.CloseWithError(c.err)
				e, open := <-w.ResultChan()
				g.Expect(open).To(Equal(c.error))
				if open {
					g.Expect(e.Type).To(Equal(watch.Error))
					g.Expect(e.Object.(*metav1.Status).Message).To(ContainSubstring("the connection of a watch broke: broken"))
					_, open = <-w.ResultChan()
					g.Expect(open).To(BeFalse())
				}
				w.Stop()
			})
		})
	}
}

// TestAFewEventsAtOnceNeedNoWorkers: a server that sends one by one may be held up for a moment.
func TestAFewEventsAtOnceNeedNoWorkers(t *testing.T) {
	defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(4))
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var helped atomic.Bool
		stream, sent := io.Pipe()
		w, err := piped(g, func() io.ReadCloser { return stream }, func(e watch.Event) watch.Event {
			if bytes.Contains(debug.Stack(), []byte("ordered.(*Watch).work(")) {
				helped.Store(true)
			}
			time.Sleep(time.Millisecond)
			return e
		})["typed"].WatchWithContext(t.Context(), metav1.ListOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		defer w.Stop()
		for range 10 {
			go func() { _, _ = io.WriteString(sent, strings.Repeat(podEvent(watch.Modified, "pod"), 5)) }()
			for range 5 {
				g.Expect((<-w.ResultChan()).Type).To(Equal(watch.Modified))
			}
			time.Sleep(time.Second)
		}
		g.Expect(helped.Load()).To(BeFalse())
	})
}

// TestAQueueInAStreamIsDecodedByWorkers: events that come faster than one goroutine passes them on.
func TestAQueueInAStreamIsDecodedByWorkers(t *testing.T) {
	const cores, events, patience = 4, 500, 8 // that of package ordered
	defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(cores))
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var atOnce, most atomic.Int32
		stream, sent := io.Pipe()
		lw := piped(g, func() io.ReadCloser { return stream }, func(e watch.Event) watch.Event {
			most.Store(max(most.Load(), atOnce.Add(1)))
			time.Sleep(time.Millisecond) // no time passes where a bubble computes
			atOnce.Add(-1)
			return e
		})["typed"]
		go func() {
			for i := range events {
				_, _ = io.WriteString(sent, podEvent(watch.Modified, fmt.Sprint("pod", i)))
			}
			_ = sent.Close()
		}()
		begin := time.Now()
		w, err := lw.WatchWithContext(t.Context(), metav1.ListOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		next := 0
		for e := range w.ResultChan() {
			g.Expect(e.Object.(metav1.Object).GetName()).To(Equal(fmt.Sprint("pod", next)))
			next++
		}
		g.Expect(next).To(Equal(events))
		g.Expect(most.Load()).To(BeEquivalentTo(cores))
		g.Expect(time.Since(begin)).To(BeNumerically("<=", (1+patience+(events-patience)/cores)*time.Millisecond))
		w.Stop()
	})
}

// TestAConnectionThatBreaksIsNoObjectThatCannotBeDecoded, though client-go says so: nobody has to correct an object.
func TestAConnectionThatBreaksIsNoObjectThatCannotBeDecoded(t *testing.T) {
	for _, representation := range []string{"typed", "unstructured"} {
		t.Run(representation, func(t *testing.T) {
			g := NewWithT(t)
			for sent, undecodable := range map[string]bool{"": false, `{"type":"ADDED","obj`: false, `{"type":"ADDED","object":[]}` + "\n": true} {
				stream, out := io.Pipe()
				go func() {
					_, _ = io.WriteString(out, sent)
					_ = out.CloseWithError(errors.New("stream error: stream ID 115; INTERNAL_ERROR; received from peer"))
				}()
				w, err := piped(g, func() io.ReadCloser { return stream }, nil)[representation].WatchWithContext(t.Context(), metav1.ListOptions{})
				g.Expect(err).NotTo(HaveOccurred())
				event := <-w.ResultChan()
				g.Expect(event.Type).To(Equal(watch.Error))
				g.Expect(IsUndecodable(apierrors.FromObject(event.Object))).To(Equal(undecodable), "%q: %v", sent, event.Object)
				w.Stop()
			}
		})
	}
}
