// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/tarn-dev/tarn/pkg/cache"
	"github.com/tarn-dev/tarn/pkg/inspect"
)

// oneSecret is an API server with one Secret, whose first watch expires.
type oneSecret struct{ expire chan struct{} }

// RoundTrip implements http.RoundTripper.
func (s oneSecret) RoundTrip(r *http.Request) (*http.Response, error) {
	const list = `{"kind":"SecretList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[` +
		`{"metadata":{"namespace":"ns","name":"chest","uid":"u","resourceVersion":"4"},"data":{}}]}`
	response := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r}
	response.Body = io.NopCloser(strings.NewReader(list))
	switch query := r.URL.Query(); {
	case query.Get("sendInitialEvents") != "":
		response.StatusCode = http.StatusUnprocessableEntity
		response.Body = io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`))
	case query.Get("watch") != "":
		response.Body = expiring{s.expire, r.Context()}
	}
	return response, nil
}

// expiring is the body of a watch that ends with 410.
type expiring struct {
	expire <-chan struct{}
	ctx    context.Context
}

func (e expiring) Read(into []byte) (int, error) {
	select {
	case <-e.expire:
		return copy(into, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}}`), io.EOF
	case <-e.ctx.Done():
		return 0, io.EOF
	}
}

func (expiring) Close() error { return nil }

// TestASecretIsNotQuotedByAKindThatIsStalled: the transform fails for it in the list that a watch ends
// with, so that list is refused again and again, until the kind is stalled.
func TestASecretIsNotQuotedByAKindThatIsStalled(t *testing.T) {
	for _, show := range []bool{false, true} {
		t.Run(fmt.Sprintf("ShowSecrets=%v", show), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				server, broken := oneSecret{make(chan struct{})}, atomic.Bool{}
				bookmarks := true
				c, err := cache.New(&rest.Config{}, cache.Options{
					HTTPClient: &http.Client{Transport: server}, Mapper: mapper(), DefaultEnableWatchBookmarks: &bookmarks,
					DefaultTransform: func(obj any) (any, error) {
						if broken.Load() {
							return nil, errors.New("cannot make anything of " + treasure)
						}
						return obj, nil
					},
				})
				g.Expect(err).NotTo(HaveOccurred())
				ctx, cancel := context.WithCancel(log.IntoContext(t.Context(), logr.Discard()))
				ended := make(chan error, 1)
				go func() { ended <- c.Start(ctx) }()
				synctest.Wait()
				short, end := context.WithTimeout(ctx, time.Minute)
				defer end()
				g.Expect(c.List(short, &corev1.SecretList{})).To(Succeed())

				broken.Store(true)
				server.expire <- struct{}{}
				h, err := inspect.New(c, inspect.Options{ShowSecrets: show})
				g.Expect(err).NotTo(HaveOccurred())
				seen := map[string]string{} // by phase
				for range 30 {
					time.Sleep(time.Minute)
					synctest.Wait()
					text := looking{h}.body("/api/v1/overview")
					phase, cause := stateIn(g, text)
					seen[phase] += text
					g.Expect(cause).To(Equal("transform failed"), "%s: %s", phase, text)
					g.Expect(strings.Contains(text, treasure)).To(Equal(show), "%s: %s", phase, text)
				}
				g.Expect(seen).To(HaveKey("stalled"))
				cancel()
				g.Expect(<-ended).To(Succeed())
			})
		})
	}
}

// body returns the body of an answer.
func (l looking) body(path string) string {
	body, err := io.ReadAll(l.at(http.MethodGet, path).Body)
	if err != nil {
		return err.Error()
	}
	return string(body)
}

// stateIn returns where the only kind of an overview is, and why.
func stateIn(g Gomega, overview string) (phase, cause string) {
	content := struct {
		Kinds []struct {
			State struct{ Phase, Cause string }
		}
	}{}
	g.Expect(json.Unmarshal([]byte(overview), &content)).To(Succeed())
	g.Expect(content.Kinds).To(HaveLen(1))
	return content.Kinds[0].State.Phase, content.Kinds[0].State.Cause
}
