// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package served

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

var foo = schema.GroupVersionKind{Group: "g", Version: "v1", Kind: "Foo"}

// followed is a Follower that knows a kind to be served, and asks nothing more. The test gives the answers.
type followed struct {
	*Follower
	*WithT
	server *naming
}

// naming is an API server whose discovery says that a kind is served by a resource, or that there is none.
type naming struct {
	resource string
	others   string // resources of other kinds, in JSON
	asked    int
	during   func() // the next question
}

// RoundTrip implements http.RoundTripper.
func (s *naming) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asked++
	if during := s.during; during != nil {
		s.during = nil
		during()
	}
	resources := s.others
	if s.resource != "" {
		resources = fmt.Sprintf(`{"name":%q,"kind":%q,"verbs":["list","watch"]}`, s.resource, foo.Kind)
	}
	body := fmt.Sprintf(`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"g/v1","resources":[%s]}`, resources)
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r, Body: io.NopCloser(strings.NewReader(body))}, nil
}

func newFollowed(t *testing.T) *followed {
	server := &naming{}
	f, err := New(&rest.Config{}, &http.Client{Transport: server}, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	f.Follow(foo, nil, func(State) {})
	t.Cleanup(f.open().ShutDown)
	all := &followed{f, NewWithT(t), server}
	all.answer("foos")
	all.Expect(all.asks()).To(BeFalse())
	return all
}

// answer answers what is asked now, and returns the number of questions: a second one follows if the first answer is in doubt.
func (f *followed) answer(resource string) (questions int) {
	before := f.server.asked
	f.server.resource = resource
	for first := true; first || !f.kinds[foo].doubted.IsZero(); first = false {
		gv, _ := f.queue.Get()
		f.ask(context.Background(), gv)
		f.queue.Done(gv)
	}
	return f.server.asked - before
}

func (f *followed) hears(resource string, what news) {
	f.Expect(f.event(schema.GroupVersionResource{Group: foo.Group, Resource: resource}, what)).To(Succeed())
}

// asks reports whether there is a question in the next two minutes, and waits for it.
func (f *followed) asks() bool {
	for end := time.Now().Add(2 * time.Minute); f.queue.Len() == 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	return f.queue.Len() > 0
}

func (f *followed) served() bool { return f.kinds[foo].now.Mapping != nil }

// agrees answers until nothing is asked, for a minute of the bubble at most.
func (f *followed) agrees(resource string) {
	for end := time.Now().Add(time.Minute); f.asks() && time.Now().Before(end); {
		f.answer(resource)
	}
}

func TestWhatEventsToldIsKept(t *testing.T) {
	for name, between := range map[string]func(*followed){
		"while it is refused":               func(f *followed) { f.Refused(foo) },
		"while it is followed once more":    func(f *followed) { f.Follow(foo, nil, func(State) {}) },
		"and refused after an older answer": func(f *followed) { f.answer("foos"); f.Refused(foo) },
	} {
		t.Run("a deletion "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFollowed(t)
				f.hears("foos", deleted)
				between(f)
				f.Expect(f.answer("")).To(Equal(1))
				f.Expect(f.served()).To(BeFalse(), "one answer agrees with the deletion")
				f.Expect(f.asks()).To(BeFalse())
			})
		})
	}
	for name, test := range map[string]func(*followed){
		"a change that ends the kind": func(f *followed) {
			f.hears("foos", changed)
			f.answer("")
			f.agrees("")
			f.Expect(f.served()).To(BeFalse())
			f.Expect(f.asks()).To(BeFalse(), "an event told of its end")
		},
		"a deletion during the question about the creation": func(f *followed) {
			f.hears("foos", deleted)
			f.answer("")
			f.hears("foos", changed)
			f.server.during = func() { f.hears("foos", deleted) }
			f.answer("foos") // what was true before
			f.Expect(f.asks()).To(BeTrue())
			f.agrees("")
			f.Expect(f.served()).To(BeFalse())
		},
		"a creation with another resource right after the deletion": func(f *followed) {
			f.hears("foos", deleted)
			f.hears("foos2", changed)
			f.answer("") // discovery is behind
			f.Expect(f.asks()).To(BeTrue())
			f.agrees("foos2")
			f.Expect(f.served()).To(BeTrue())
		},
		"an APIService whose version CRDs serve right after its deletion, without an event": func(f *followed) {
			service := schema.GroupVersionResource{Group: foo.Group, Version: foo.Version}
			f.Expect(f.event(service, changed)).To(Succeed())
			f.agrees("foos")
			f.Expect(f.event(service, deleted)).To(Succeed())
			f.answer("") // discovery is behind
			f.Expect(f.served()).To(BeFalse())
			f.Expect(f.asks()).To(BeTrue())
			f.agrees("foos")
			f.Expect(f.served()).To(BeTrue())
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { test(newFollowed(t)) }) })
	}
}

// TestADoubtKeepsNoOtherKindWaiting: the answer that lacks one kind of a version is the first one with another.
func TestADoubtKeepsNoOtherKindWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFollowed(t)
		begun, waited := time.Now(), time.Duration(-1)
		f.Follow(foo.GroupVersion().WithKind("Bar"), nil, func(now State) {
			if now.Mapping != nil && waited < 0 {
				waited = time.Since(begun)
			}
		})
		f.server.others = `{"name":"bars","kind":"Bar","verbs":["list","watch"]}`
		f.Expect(f.answer("")).To(Equal(2))
		f.Expect(f.served()).To(BeFalse())
		f.Expect(waited).To(And(BeNumerically(">=", 0), BeNumerically("<", 50*time.Millisecond)))
	})
}
