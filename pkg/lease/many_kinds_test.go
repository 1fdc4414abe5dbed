// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarn-dev/tarn/internal/variable"
	"github.com/tarn-dev/tarn/pkg/cache"
	"github.com/tarn-dev/tarn/pkg/lease"
)

const (
	// roundsVariable is how often each kind is acquired, on average.
	roundsVariable = "TARN_LEASE_ROUNDS"
	// seedVariable is the seed. It does not repeat the order of what happens at the same moment.
	seedVariable = "TARN_LEASE_SEED"
)

var manyKinds = schema.GroupVersion{Group: "many.example.com", Version: "v1"}

// manyServed is an API server with one object of each of many kinds, in namespace "a".
type manyServed struct {
	mu    sync.Mutex // guards what follows
	kinds map[string]*oneServed
	wrong []string
}

// oneServed is a kind with its object.
type oneServed struct {
	version int
	changed sync.Cond
	watches map[string][]openWatch // by path
}

// openWatch is the context of a watch, and when it was asked for.
type openWatch struct {
	context.Context
	since time.Time
}

func newManyServed(n int) (s *manyServed, mapper meta.RESTMapper) {
	s = &manyServed{kinds: map[string]*oneServed{}}
	all := meta.NewDefaultRESTMapper(nil)
	for i := range n {
		one := &oneServed{version: 1, watches: map[string][]openWatch{}}
		one.changed.L = &s.mu
		s.kinds[resourceOf(i)] = one
		all.AddSpecific(manyKinds.WithKind(kindOf(i)), manyKinds.WithResource(resourceOf(i)), manyKinds.WithResource(resourceOf(i)), meta.RESTScopeNamespace)
	}
	return s, all
}

func kindOf(i int) string     { return fmt.Sprintf("Kind%d", i) }
func resourceOf(i int) string { return fmt.Sprintf("kind%ds", i) }

// object returns the object of a kind at a version, as JSON.
func (s *manyServed) object(resource string, version int) string {
	return fmt.Sprintf(`{"apiVersion": %q, "kind": %q, "metadata": {"namespace": "a", "name": "one", "uid": "one", "resourceVersion": "%d"}}`,
		manyKinds, "K"+strings.TrimSuffix(resource, "s")[1:], version)
}

// answer answers a list or a watch, as http.RoundTripper.
func (s *manyServed) answer(r *http.Request) (*http.Response, error) {
	resource := path.Base(r.URL.Path)
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.kinds[resource]
	if !r.URL.Query().Has("watch") {
		go s.checkNeeded(r.URL.Path, append(s.openLocked(resource, r.URL.Path), s.openLocked(resource, strings.Replace(r.URL.Path, "/namespaces/a", "", 1))...))
		return answerWith(r, http.StatusOK, strings.NewReader(fmt.Sprintf(`{"apiVersion": %q, "kind": %q, "metadata": {"resourceVersion": "%d"}, "items": [%s]}`,
			manyKinds, "List", one.version, s.object(resource, one.version)))), nil
	}
	seen, err := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	if err != nil {
		return nil, err
	}
	one.watches[r.URL.Path] = append(one.watches[r.URL.Path], openWatch{r.Context(), time.Now()})
	context.AfterFunc(r.Context(), one.changed.Broadcast)
	answer, events := answerWatch(r)
	go func() {
		for {
			s.mu.Lock()
			for one.version == seen && r.Context().Err() == nil {
				one.changed.Wait()
			}
			seen = one.version
			s.mu.Unlock()
			if _, err := fmt.Fprintf(events, `{"type": "MODIFIED", "object": %s}`+"\n", s.object(resource, seen)); err != nil {
				return
			}
		}
	}()
	return answer, nil
}

// checkNeeded complains about a list of what open watches cover, if they go on: then their informers serve leases on that. A watch that was
// asked for at the moment of the list is of a lease that was acquired beside the other.
func (s *manyServed) checkNeeded(of string, covering []openWatch) {
	listed := time.Now()
	time.Sleep(time.Millisecond) // what was just about to end has ended
	for _, watch := range covering {
		if watch.since.Before(listed) && watch.Err() == nil {
			s.mu.Lock()
			s.wrong = append(s.wrong, of)
			s.mu.Unlock()
			return
		}
	}
}

// openLocked returns the open watches of a path.
func (s *manyServed) openLocked(resource, of string) (open []openWatch) {
	one := s.kinds[resource]
	for _, watch := range one.watches[of] {
		if watch.Err() == nil {
			open = append(open, watch)
		}
	}
	one.watches[of] = open
	return open
}

// open counts the open watches of all kinds.
func (s *manyServed) open() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for resource, one := range s.kinds {
		for of := range one.watches {
			n += len(s.openLocked(resource, of))
		}
	}
	return n
}

// write changes the object of a kind.
func (s *manyServed) write(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.kinds[resourceOf(i)]
	one.version++
	one.changed.Broadcast()
}

// told checks that a handler was told of the newest version of a kind, and of nothing that does not follow from what it was told before.
func (s *manyServed) told(g Gomega, h held, kind int) {
	s.mu.Lock()
	version := s.kinds[resourceOf(kind)].version
	s.mu.Unlock()
	versions, wrong := h.mirror.now()
	g.Expect(versions).To(Equal(map[string]string{"a/one": strconv.Itoa(version)}), h.String())
	g.Expect(wrong).To(BeEmpty(), h.String())
}

// onKind is a lease on a kind of a manyServed.
type onKind struct {
	held
	kind int
}

// acquireKind acquires a lease on a random kind, and may wait until it has synced.
func acquireKind(ctx context.Context, g Gomega, c cache.Cache, chance *rand.Rand, kinds int) onKind {
	h := onKind{held{mirror: &mirror{versions: map[string]string{}}}, chance.IntN(kinds)}
	h.scope.Namespace = []string{"", "a"}[chance.IntN(2)]
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(manyKinds.WithKind(kindOf(h.kind)))
	var err error
	h.Lease, err = lease.Acquire(ctx, c, obj, h.scope)
	g.Expect(err).NotTo(HaveOccurred())
	h.DeleteOnRelease()
	_, err = h.AddEventHandler(h.mirror)
	g.Expect(err).NotTo(HaveOccurred())
	if chance.IntN(4) > 0 { // otherwise it may be released while it syncs
		g.Expect(h.WaitForSync(ctx)).To(Succeed())
		g.Expect(h.Get(ctx, named("a", "one"), obj)).To(Succeed())
	}
	return h
}

// TestManyKindsAreAcquiredAndReleased has 16 users acquire and release leases on 500 kinds while their objects change. No event is lost, a
// scope that a watch covers is not listed, and in the end there is no watch, and no goroutine, which synctest looks for.
func TestManyKindsAreAcquiredAndReleased(t *testing.T) {
	const kinds, users = 500, 16
	seed, rounds := variable.Number(t, seedVariable, uint64(time.Now().UnixNano())), int(variable.Number(t, roundsVariable, 20))
	t.Logf("%s=%d", seedVariable, seed)
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		served, mapper := newManyServed(kinds)
		idle := 200 * time.Millisecond
		c, stop := onFakeServerWith(t, cache.Tuning{LeaseIdleTime: idle}, served.answer, cache.Options{Mapper: mapper})

		var all, writer sync.WaitGroup
		var mu sync.Mutex // guards last
		var last []onKind
		writes, endWrites := context.WithCancel(t.Context())
		writer.Go(func() {
			for chance := rand.New(rand.NewPCG(seed, users)); writes.Err() == nil; time.Sleep(time.Millisecond) {
				served.write(chance.IntN(kinds))
			}
		})
		for n := range users {
			all.Go(func() {
				chance := rand.New(rand.NewPCG(seed, uint64(n)))
				var mine []onKind
				for range kinds * rounds / users {
					mine = append(mine, acquireKind(t.Context(), g, c, chance, kinds))
					time.Sleep(time.Duration(chance.IntN(20)) * time.Millisecond)
					if len(mine) > 3 {
						mine[0].Release()
						mine = mine[1:]
					}
				}
				mu.Lock()
				defer mu.Unlock()
				last = append(last, mine...)
			})
		}
		all.Wait()
		endWrites()
		writer.Wait()
		time.Sleep(time.Second)
		for _, h := range last {
			served.told(g, h.held, h.kind)
			h.Release()
		}
		time.Sleep(idle + time.Second)
		for _, h := range last {
			versions, wrong := h.mirror.now()
			g.Expect(versions).To(BeEmpty(), "its handler asks for deletions: %s", h)
			g.Expect(wrong).To(BeEmpty(), h.String())
		}
		g.Expect(served.open()).To(BeZero())
		g.Expect(served.wrong).To(BeEmpty(), "lists of what a watch covers")
		stop()
	})
}
