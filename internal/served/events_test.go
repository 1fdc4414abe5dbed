// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package served

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

var foo = schema.GroupVersionKind{Group: "g", Version: "v1", Kind: "Foo"}

// followed is a Follower that knows a kind to be served, and asks nothing more. The test gives the answers.
type followed struct {
	*Follower
	*WithT
	version *version
}

func newFollowed(t *testing.T) *followed {
	f, err := New(&rest.Config{}, &http.Client{Transport: unreachable{}}, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	f.Follow(foo, nil, func(State) {})
	all := &followed{f, NewWithT(t), f.versions[foo.GroupVersion()]}
	all.answer("foos")
	all.Expect(all.asks()).To(BeFalse())
	return all
}

// answer is an answer with a resource of the kind, or with none.
func (f *followed) answer(resource string) { f.answerTo(f.version.events, resource) }

func (f *followed) answerTo(events int, resource string) {
	list := &metav1.APIResourceList{}
	if resource != "" {
		list.APIResources = []metav1.APIResource{{Name: resource, Kind: foo.Kind, Verbs: metav1.Verbs{"list", "watch"}}}
	}
	f.version.next = time.Time{} // the question is not due any more
	f.answered(foo.GroupVersion(), f.version, events, list, nil)
}

func (f *followed) hears(resource string, what news) {
	f.event(schema.GroupVersion{Group: foo.Group}, resource, what)
}

func (f *followed) asks() bool { return !f.version.next.IsZero() }

func (f *followed) served() bool { return f.version.kinds[foo.Kind].state.served() }

// agrees answers until nothing is asked, for a minute of the bubble at most.
func (f *followed) agrees(resource string) {
	for end := time.Now().Add(time.Minute); f.asks() && time.Now().Before(end); {
		time.Sleep(time.Until(f.version.next))
		f.answer(resource)
	}
}

func TestWhatEventsToldIsKept(t *testing.T) {
	for name, between := range map[string]func(*followed){
		"while it is refused":               func(f *followed) { f.Refused(foo, true) },
		"while it is followed once more":    func(f *followed) { f.Follow(foo, nil, func(State) {}) },
		"and refused after an older answer": func(f *followed) { f.answer("foos"); f.Refused(foo, true) },
	} {
		t.Run("a deletion "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFollowed(t)
				f.hears("foos", deleted)
				between(f)
				f.answer("")
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
			events := f.version.events
			f.hears("foos", deleted)
			f.answerTo(events, "foos") // what was true before
			f.version.next = time.Now()
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
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { test(newFollowed(t)) }) })
	}
}
