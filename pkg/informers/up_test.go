// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
)

// answer is what an API server, or whoever stands before it, answers a list with.
type answer struct{ body, media string }

// scripted is an API server with one answer to lists. Its watches send nothing, and end when the
// answer changes: then only another list leads on.
type scripted struct {
	lists   atomic.Pointer[answer]
	expired atomic.Bool
	expire  chan struct{} // ends a watch
}

// RoundTrip implements http.RoundTripper.
func (s *scripted) RoundTrip(r *http.Request) (*http.Response, error) {
	response := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r}
	switch {
	case r.URL.Query().Get("watch") == "":
		a := s.lists.Load()
		s.expired.Store(false)
		response.Header.Set("Content-Type", a.media)
		response.Body = io.NopCloser(strings.NewReader(a.body))
	case s.expired.Load():
		response.StatusCode = http.StatusGone
		response.Body = io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`))
	default:
		response.Body = idleBody{s.expire, r.Context().Done()}
	}
	return response, nil
}

// change lets the informer list anew, and get another answer.
func (s *scripted) change(a answer) {
	s.lists.Store(&a)
	s.expired.Store(true)
	select {
	case s.expire <- struct{}{}:
	default: // there is no watch: the list before has failed
	}
	time.Sleep(5 * time.Minute)
	synctest.Wait()
}

// idleBody is the body of a watch.
type idleBody struct{ expire, gone <-chan struct{} }

func (b idleBody) Read([]byte) (int, error) {
	select {
	case <-b.expire:
	case <-b.gone:
	}
	return 0, io.EOF
}

func (idleBody) Close() error { return nil }

// TestUpUntilAListHasADecodeError: an answer that is no list of the kind says nothing of whether its
// objects fit the Go type, and a list in which all fit says that they do again.
func TestUpUntilAListHasADecodeError(t *testing.T) {
	const (
		head        = `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[`
		fits        = head + `{"metadata":{"name":"a","namespace":"ns"}}]}`
		decodeError = head + `{"metadata":{"name":"a","namespace":"ns"},"spec":{"containers":"none"}}]}`
	)
	for name, odd := range map[string]string{
		"a page":              "<html>Please log in</html>",
		"nothing":             "",
		"a list cut short":    fits[:len(fits)-3],
		"a list of others":    strings.Replace(decodeError, "PodList", "NodeList", 1),
		"something of nobody": `{"items":"none"}`,
	} {
		for _, media := range []string{"application/json", "text/html"} {
			t.Run(name+"/"+media, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g := NewWithT(t)
					server := &scripted{expire: make(chan struct{})}
					server.lists.Store(&answer{fits, "application/json"})
					o := testOptions()
					o.Name, o.HTTPClient = "up-test", &http.Client{Transport: server}
					m := NewMap(o)
					stop := running(t, m)
					entry, err := m.Get(t.Context(), podKey)
					g.Expect(err).NotTo(HaveOccurred())
					g.Expect(entry.WaitForSync(t.Context())).To(Succeed())
					synctest.Wait()
					g.Expect(entry.Up()).To(BeTrue())
					server.change(answer{odd, media})
					g.Expect(entry.Up()).To(BeTrue(), "%v", entry.failures.Last())
					server.change(answer{decodeError, "application/json"})
					g.Expect(entry.Up()).To(BeFalse())
					g.Expect(entry.failures.Last().Err).To(MatchError(ContainSubstring("ns/a does not fit *v1.Pod")))
					server.change(answer{fits, "application/json"})
					g.Expect(entry.Up()).To(BeTrue())
					stop()
				})
			})
		}
	}
}
