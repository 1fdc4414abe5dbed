// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package ownwrites_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tarn-dev/tarn/internal/ownwrites"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

// thing is an object: its UID, its size, a label, and whether it has a deletionTimestamp.
type thing struct {
	uid     types.UID
	size    int
	label   string
	leaving bool
}

type (
	entry = ownwrites.Entry[thing]
	item  = watchcache.Item[thing]
)

// fixture is an engine and what lies over it.
type fixture struct {
	*WithT
	engine  *watchcache.Engine[thing, struct{}]
	overlay *ownwrites.Overlay[thing]
	budget  *ownwrites.Budget
	states  atomic.Int64 // how often the overlay has looked at the state

	mu     sync.Mutex // guards what follows
	server map[string]item
	at     uint64 // the revision of the server
	asked  int    // for a key, or for the revision
	proofs int    // of these, for the revision
	listed int
	fails  error
	lost   error         // why the cache cannot hold what the server has
	slow   time.Duration // how long an answer takes, a second if it is zero
	routes map[string]route
	ended  []ownwrites.Ending

	between func()       // is called after each answer of a list, if it is set
	leaving atomic.Int64 // how often was asked for a deletionTimestamp
}

// route is how long the next question takes to the server, and its answer back: to one for a key, or to a list with
// "list " before the prefix. Others take slow to the server.
type route struct{ there, back time.Duration }

// travel takes the time of a question, and returns what takes that of the answer.
func (f *fixture) travel(ctx context.Context, name string) (back func(), err error) {
	f.mu.Lock()
	next, known := f.routes[name]
	delete(f.routes, name)
	f.mu.Unlock()
	if !known {
		return func() {}, f.wait(ctx)
	}
	time.Sleep(next.there)
	return func() { time.Sleep(next.back) }, nil
}

// serves sets the object of the server under a key, and its revision. There is none if the UID is empty.
func (f *fixture) serves(key string, revision uint64, uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at = revision
	if delete(f.server, key); uid != "" {
		f.server[key] = item{Key: key, Revision: revision, Value: thing{uid: uid, size: 100}}
	}
}

// answers sets with what questions fail, and why the cache cannot hold what the server has.
func (f *fixture) answers(fails, lost error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fails, f.lost = fails, lost
}

// errTooLong is the error of a list of the prefix long/.
var errTooLong = errors.New("too long")

// wait takes the time of an answer, in a bubble.
func (f *fixture) wait(ctx context.Context) error {
	f.mu.Lock()
	slow := cmp.Or(f.slow, time.Second)
	f.mu.Unlock()
	select {
	case <-time.After(slow):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func newFixture(t *testing.T, budget int64) *fixture {
	f := newUnlisted(t, budget)
	f.engine.Replace(nil, 1)
	return f
}

// newUnlisted is newFixture before the first list.
func newUnlisted(t *testing.T, budget int64) *fixture {
	f := &fixture{
		WithT: NewWithT(t), server: map[string]item{}, budget: ownwrites.NewBudget(budget),
		engine: watchcache.New[thing, struct{}](watchcache.Options[thing]{}),
	}
	f.overlay = ownwrites.New(ownwrites.Options[thing]{
		State: func() *watchcache.Snapshot[thing] {
			f.states.Add(1)
			return f.engine.Snapshot()
		},
		Wait: f.engine.WaitUntilFreshAfter, Ask: f.ask, List: f.list, Budget: f.budget,
		UID:  func(t thing) types.UID { return t.uid },
		Size: func(t thing) int { return t.size },
		Leaving: func(t thing) bool {
			f.leaving.Add(1)
			return t.leaving
		},
		Ended: func(e ownwrites.Ending) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.ended = append(f.ended, e)
		},
	})
	return f
}

func (f *fixture) ask(ctx context.Context, key string) (ownwrites.Answer[thing], error) {
	back, err := f.travel(ctx, key)
	if err != nil {
		return ownwrites.Answer[thing]{}, err
	}
	defer back()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	if key == "" {
		f.proofs++
	}
	if found, ok := f.server[key]; ok {
		return f.answer(found, f.at), f.fails
	}
	return ownwrites.Answer[thing]{Revision: f.at}, f.fails
}

// answer returns what the cache makes of an object of the server.
func (f *fixture) answer(found item, at uint64) ownwrites.Answer[thing] {
	if f.lost != nil {
		return ownwrites.Answer[thing]{Item: item{Key: found.Key, Revision: found.Revision}, UID: found.Value.uid, Lost: f.lost, Revision: at}
	}
	return ownwrites.Answer[thing]{Found: true, Item: found, Revision: at}
}

func (f *fixture) list(ctx context.Context, prefix string, each func(ownwrites.Answer[thing])) (uint64, error) {
	if strings.HasPrefix(prefix, "long/") {
		time.Sleep(9 * time.Second)
	}
	back, err := f.travel(ctx, "list "+prefix)
	if err != nil {
		return 0, err
	}
	f.mu.Lock()
	var found []ownwrites.Answer[thing]
	for _, there := range f.server {
		if strings.HasPrefix(there.Key, prefix) {
			found = append(found, f.answer(there, f.at))
		}
	}
	at, err := f.at, f.fails
	if strings.HasPrefix(prefix, "long/") {
		err = errTooLong
	}
	f.listed++
	between := f.between
	f.mu.Unlock()
	slices.SortFunc(found, func(a, b ownwrites.Answer[thing]) int { return strings.Compare(a.Item.Key, b.Item.Key) })
	back()
	for _, answer := range found {
		each(answer)
		if between != nil {
			between()
		}
	}
	return at, err
}

// watch brings an object, or its deletion if the UID is empty.
func (f *fixture) watch(key string, revision uint64, uid types.UID) {
	f.engine.Apply(watchcache.Change[thing, struct{}]{
		Item: item{Key: key, Revision: revision, Value: thing{uid: uid}}, Deleted: uid == "",
	})
}

// watchLeaving brings an object with a deletionTimestamp.
func (f *fixture) watchLeaving(key string, revision uint64, uid types.UID) {
	f.engine.Apply(watchcache.Change[thing, struct{}]{Item: item{Key: key, Revision: revision, Value: thing{uid: uid, leaving: true}}})
}

// read returns the object that a read shows, as its UID and its revision.
func (f *fixture) read(key string) (types.UID, uint64) {
	prefix := key[:strings.Index(key, "/")+1]
	set, state, err := f.overlay.Read(f.ctx(), prefix, key)
	f.Expect(err).NotTo(HaveOccurred())
	found, _ := state.Get(key)
	if set != nil {
		found, _, _ = set.Find(state, key)
	}
	return found.Value.uid, found.Revision
}

// serverAt sets the revision of the server.
func (f *fixture) serverAt(revision uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at = revision
}

// requests returns how many lists and questions there were.
func (f *fixture) requests() (lists, asked int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.listed, f.asked
}

// keysAsked returns how many questions for one key there were.
func (f *fixture) keysAsked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked - f.proofs
}

func (f *fixture) ctx() context.Context { return context.Background() }

func (f *fixture) shows(key string, uid types.UID, revision uint64) {
	gotUID, got := f.read(key)
	f.ExpectWithOffset(1, gotUID).To(Equal(uid), key)
	f.ExpectWithOffset(1, got).To(Equal(revision))
}

func (f *fixture) shown(key string, revision uint64, uid types.UID) entry {
	return entry{Key: key, Outcome: ownwrites.Shown, Revision: revision, UID: uid, Value: thing{uid: uid, size: 100}}
}

func (f *fixture) gone(key string, revision uint64, uid types.UID) entry {
	return entry{Key: key, Outcome: ownwrites.Gone, Revision: revision, UID: uid}
}

func (f *fixture) deletedWithOthers(key string, revision uint64, uid types.UID) entry {
	return entry{Key: key, Outcome: ownwrites.Gone, Revision: revision, UID: uid, Collection: true}
}

// inBubble runs a test whose time is not real, until all entries have ended.
func inBubble(t *testing.T, budget int64, test func(*fixture)) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, budget)
		test(f)
		f.overlay.Close()
		f.Expect(f.overlay.Load()).To(BeNil())
	})
}
