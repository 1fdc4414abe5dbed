// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/tarn-dev/tarn/internal/inspected"
)

// TestGetEndsWithItsContextWhileDiscoveryHangs: callers that come meanwhile, and give up, ask nothing.
func TestGetEndsWithItsContextWhileDiscoveryHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		answer := make(chan struct{})
		var asked atomic.Int64
		m := newFakeMap(alwaysSynced)
		m.options.Mapper.(*mapper).resolving = func(schema.GroupKind) {
			asked.Add(1)
			select {
			case <-answer:
			case <-time.After(32 * time.Second):
			}
		}
		for range 10 {
			begun := time.Now()
			short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			_, err := m.Get(short, podKey)
			cancel()
			g.Expect(time.Since(begun)).To(Equal(100 * time.Millisecond))
			g.Expect(apierrors.IsTimeout(err)).To(BeTrue(), "%v", err)
			var reason *NotSyncedError
			g.Expect(errors.As(err, &reason)).To(BeTrue())
			g.Expect(reason.Cause).To(Equal(Timeout))
			g.Expect(err).To(MatchError(And(ContainSubstring("Pod (v1)"), ContainSubstring("deadline exceeded"))))
		}
		g.Expect(asked.Load()).To(BeEquivalentTo(1))
		close(answer)
		_, err := m.Get(t.Context(), podKey)
		g.Expect(err).NotTo(HaveOccurred())
	})
}

// hung is an API server that does not answer.
type hung struct{}

// RoundTrip implements http.RoundTripper.
func (hung) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// TestATimeoutOfDiscoveryIsNotTheAbsenceOfAKind: a kind that must be served has the cause, and is asked for again by the next
// caller. An optional kind is dormant until discovery answers, as after a 504.
func TestATimeoutOfDiscoveryIsNotTheAbsenceOfAKind(t *testing.T) {
	get := func(err error) error { return &url.Error{Op: "Get", URL: "https://localhost/api/v1", Err: err} }
	failing := func(err error) func(*WithT) meta.RESTMapper {
		return func(*WithT) meta.RESTMapper { return unmapped{err: err} }
	}
	for name, mapper := range map[string]func(*WithT) meta.RESTMapper{
		"504":                                failing(apierrors.NewTimeoutError("no answer in time", 0)),
		"deadline of the client":             failing(get(context.DeadlineExceeded)),
		"read deadline of the connection":    failing(get(&net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded})),
		"deadline, in groups that failed":    failing(&apiutil.ErrResourceDiscoveryFailed{{Version: "v1"}: get(context.DeadlineExceeded)}),
		"read deadline, of all of discovery": failing(fmt.Errorf("failed to get server groups: %w", get(os.ErrDeadlineExceeded))),
		"time-out of the HTTP client": func(g *WithT) meta.RESTMapper {
			m, err := apiutil.NewDynamicRESTMapper(&rest.Config{}, &http.Client{Transport: hung{}, Timeout: time.Second})
			g.Expect(err).NotTo(HaveOccurred())
			return m
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				m := newFakeMap(alwaysSynced)
				m.options.Mapper = mapper(g)
				_, err := m.Get(t.Context(), podKey)
				isTimeoutOfDiscovery(g, err)
				g.Expect(meta.IsNoMatchError(err)).To(BeFalse())
				m.options.Mapper = newMapper()
				_, err = m.Get(t.Context(), podKey)
				g.Expect(err).NotTo(HaveOccurred())

				server := &announcing{hosting: hosting{end: make(chan struct{})}, crds: make(chan string)}
				server.serves.Store(true)
				o := optionalOptions(g, server, testOptions())
				o.Mapper = mapper(g)
				optional := NewMap(o)
				optional.Go(o.Served.Run)
				entry, err := optional.Get(t.Context(), podKey)
				g.Expect(err).NotTo(HaveOccurred())
				isTimeoutOfDiscovery(g, entry.WaitForSync(t.Context()))
				phase, why := entry.phase()
				g.Expect(phase).To(Equal(inspected.Dormant))
				isTimeoutOfDiscovery(g, why)
				running(t, optional)
				time.Sleep(time.Second)
				g.Expect(entry.WaitForSync(t.Context())).To(Succeed())
			})
		})
	}
}

func isTimeoutOfDiscovery(g *WithT, err error) {
	var reason *NotSyncedError
	g.Expect(errors.As(err, &reason)).To(BeTrue(), "%v", err)
	g.Expect(reason.Cause).To(Equal(Timeout))
	g.Expect(apierrors.IsTimeout(err)).To(BeTrue(), "%v", err)
	g.Expect(err).To(MatchError(ContainSubstring("Pod (v1)")))
}
