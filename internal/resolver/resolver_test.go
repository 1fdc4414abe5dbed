// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

var podKind = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}

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
			_, err := r.Mapping(t.Context(), mapper, podKind)
			answers <- err
		}
		absent := &meta.NoKindMatchError{GroupKind: podKind.GroupKind()}
		mapping := MappingTo(podKind, "pods", meta.RESTScopeNamespace)

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
		_, err := r.Mapping(impatient, mapper, podKind)
		g.Expect(err).To(And(MatchError(ErrGaveUp), MatchError(context.DeadlineExceeded)))
		mapper.next <- func() (*meta.RESTMapping, error) { return mapping, nil }
		synctest.Wait()
		g.Expect(answers).To(HaveLen(callers))
		for range callers {
			g.Expect(<-answers).NotTo(HaveOccurred())
		}
		g.Expect(mapper.calls.Load()).To(BeEquivalentTo(2), "nobody waits for a third")
		g.Expect(mapper.most.Load()).To(BeEquivalentTo(1))

		go ask()
		mapper.next <- func() (*meta.RESTMapping, error) { return mapping, nil }
		g.Expect(<-answers).NotTo(HaveOccurred())
	})
}

// TestAMapperThatDoesNotReturnIsAnErrorOfWhoAsks: it panics, or ends its goroutine, in a question and in the next.
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
					_, err := r.Mapping(t.Context(), mapper, podKind)
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
			mapping := MappingTo(podKind, "pods", meta.RESTScopeNamespace)
			go func() { mapper.next <- func() (*meta.RESTMapping, error) { return mapping, nil } }()
			g.Expect(r.Mapping(t.Context(), mapper, podKind)).To(BeIdenticalTo(mapping))
		})
	}
}

// TestAQuestionIsOneToTheMapperOfWhoAsks: a question to another one is under way.
func TestAQuestionIsOneToTheMapperOfWhoAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		old, r := &asked{next: make(chan func() (*meta.RESTMapping, error))}, &Resolver{}
		others := meta.NewDefaultRESTMapper(nil)
		others.Add(podKind, meta.RESTScopeNamespace)
		go func() { _, _ = r.Mapping(t.Context(), old, podKind) }()
		synctest.Wait()
		answer := make(chan error, 1)
		go func() {
			_, err := r.Mapping(t.Context(), others, podKind)
			answer <- err
		}()
		synctest.Wait()
		old.next <- func() (*meta.RESTMapping, error) { return nil, errors.New("another mapper") }
		g.Expect(<-answer).NotTo(HaveOccurred())
	})
}
