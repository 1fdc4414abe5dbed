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
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
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

// asked is a RESTMapper that answers as it is told, one call after the other.
type asked struct {
	meta.RESTMapper
	calls atomic.Int64
	now   atomic.Int64 // calls that are under way
	most  atomic.Int64 // of them at the same time
	next  chan func() (*meta.RESTMapping, error)
}

// RESTMapping implements meta.RESTMapper.
func (m *asked) RESTMapping(schema.GroupKind, ...string) (*meta.RESTMapping, error) {
	m.calls.Add(1)
	m.most.Store(max(m.most.Load(), m.now.Add(1)))
	defer m.now.Add(-1)
	return (<-m.next)()
}

// TestWhoAsksDuringAQuestionGetsTheAnswerToTheNext: the CRD comes while the API server answers that there is none.
func TestWhoAsksDuringAQuestionGetsTheAnswerToTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		mapper, r := &asked{next: make(chan func() (*meta.RESTMapping, error))}, &Resolver{}
		const callers = 100
		answers := make(chan error, callers)
		ask := func() {
			_, err := r.Mapping(t.Context(), mapper, podKey, "")
			answers <- err
		}
		absent := &meta.NoKindMatchError{GroupKind: podKey.GroupKind()}
		mapping := mappingTo(podKey, "pods", meta.RESTScopeNamespace)

		go ask()
		synctest.Wait()
		for range callers {
			go ask()
		}
		synctest.Wait()
		g.Expect(mapper.calls.Load()).To(BeEquivalentTo(1))
		mapper.next <- func() (*meta.RESTMapping, error) { return nil, absent }
		synctest.Wait()
		g.Expect(answers).To(HaveLen(1))
		g.Expect(<-answers).To(MatchError(absent))
		g.Expect(mapper.calls.Load()).To(BeEquivalentTo(2), "the others share a question")

		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := r.Mapping(impatient, mapper, podKey, "")
		g.Expect(apierrors.IsTimeout(err)).To(BeTrue(), "%v", err)
		mapper.next <- func() (*meta.RESTMapping, error) { return mapping, nil }
		synctest.Wait()
		g.Expect(answers).To(HaveLen(callers))
		for range callers {
			g.Expect(<-answers).NotTo(HaveOccurred())
		}
		g.Expect(mapper.calls.Load()).To(BeEquivalentTo(2), "nobody waits for a third")
		g.Expect(mapper.most.Load()).To(BeEquivalentTo(1))
		g.Expect(r.following).To(BeEmpty())

		go ask()
		mapper.next <- func() (*meta.RESTMapping, error) { return mapping, nil }
		g.Expect(<-answers).NotTo(HaveOccurred())
	})
}

// TestAMapperThatDoesNotReturnIsAnErrorOfWhoAsks: it panics, or ends its goroutine, in a question and in the one that follows.
func TestAMapperThatDoesNotReturnIsAnErrorOfWhoAsks(t *testing.T) {
	handlers := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = nil // they would print the stack
	defer func() { utilruntime.ErrorHandlers = handlers }()
	cause := errors.New("out of order")
	for text, end := range map[string]func(){
		"asked for /v1, Kind=Pod, panicked: out of order": func() { panic(cause) },
		"asked for /v1, Kind=Pod, panicked: 7":            func() { panic(7) },
		"asked for /v1, Kind=Pod, ended its goroutine":    runtime.Goexit,
	} {
		synctest.Test(t, func(t *testing.T) {
			g := NewWithT(t)
			mapper, r := &asked{next: make(chan func() (*meta.RESTMapping, error))}, &Resolver{}
			answers := make(chan error, 2)
			for range 2 {
				go func() {
					_, err := r.Mapping(t.Context(), mapper, podKey, "")
					answers <- err
				}()
				synctest.Wait()
			}
			for range 2 {
				mapper.next <- func() (*meta.RESTMapping, error) {
					end()
					return nil, nil
				}
				g.Expect(<-answers).To(MatchError(ContainSubstring(text)))
			}
			synctest.Wait()
			g.Expect(r.following).To(BeEmpty())
			mapping := mappingTo(podKey, "pods", meta.RESTScopeNamespace)
			go func() { mapper.next <- func() (*meta.RESTMapping, error) { return mapping, nil } }()
			g.Expect(r.Mapping(t.Context(), mapper, podKey, "")).To(BeIdenticalTo(mapping))
		})
	}
}

// TestAQuestionIsOneToTheMapperOfWhoAsks: a question to another one is under way.
func TestAQuestionIsOneToTheMapperOfWhoAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		old, r := &asked{next: make(chan func() (*meta.RESTMapping, error))}, &Resolver{}
		go func() { _, _ = r.Mapping(t.Context(), old, podKey, "") }()
		synctest.Wait()
		answer := make(chan error, 1)
		go func() {
			_, err := r.Mapping(t.Context(), newMapper(), podKey, "")
			answer <- err
		}()
		synctest.Wait()
		old.next <- func() (*meta.RESTMapping, error) { return nil, errors.New("another mapper") }
		g.Expect(<-answer).NotTo(HaveOccurred())
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
// caller. One that is optional is parked until discovery answers, as after a 504.
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
				phase, why := entry.Phase()
				g.Expect(phase).To(Equal(Parked))
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
