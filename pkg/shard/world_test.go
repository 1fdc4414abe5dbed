// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
)

// joining is within how long a replica joins: RetryPeriod, and some requests.
const joining = 3 * time.Second

// world has replicas that work on keys, each in a process of its own as far as they know.
type world struct {
	t      testing.TB
	ctx    context.Context
	end    context.CancelFunc
	server *fakeServer
	keys   []string
	key    string        // Options.Key
	work   time.Duration // at most, on a key
	begun  time.Time
	all    sync.WaitGroup
	mu     sync.Mutex // guards what follows
	live   []*replica
	holder map[string]*replica
	last   map[string]string // the member that worked on a key last
	moved  int               // how often another member began work on a key
	story  []string
}

// replica is one process.
type replica struct {
	name string
	ring *Ring
	link *link
	stop context.CancelFunc
	// guarded by the lock of the world:
	dead  bool
	terms map[string]uint64 // the last ones that were seen
	lost  map[string]bool   // keys without a term since
}

func (r *replica) String() string { return fmt.Sprintf("%s(%p)", r.name, r) }

func newWorld(t testing.TB, random *rand.Rand, keys int) *world {
	ctx, end := context.WithCancel(t.Context())
	w := &world{
		t: t, ctx: ctx, end: end, server: newFakeServer(ctx, random), work: 2 * time.Second, begun: time.Now(),
		holder: map[string]*replica{}, last: map[string]string{},
	}
	for i := range keys {
		w.keys = append(w.keys, fmt.Sprintf("namespace-%d", i))
	}
	return w
}

// tell notes what happens, for the report of a failure.
func (w *world) tell(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tellLocked(format, args...)
}

func (w *world) tellLocked(format string, args ...any) {
	w.story = append(w.story, fmt.Sprintf("%8.3f ", time.Since(w.begun).Seconds())+fmt.Sprintf(format, args...))
}

// fail reports a violation once, with what came before.
func (w *world) fail(format string, args ...any) {
	if !w.t.Failed() {
		w.tellLocked(format, args...)
		for _, line := range w.story[max(0, len(w.story)-400):] {
			w.t.Log(line)
		}
		w.t.Errorf(format, args...)
	}
}

// start starts a replica whose clock runs at a rate, on a link.
func (w *world) start(name string, rate float64, l *link) *replica {
	l.server = w.server
	r := &replica{name: name, link: l, terms: map[string]uint64{}, lost: map[string]bool{}}
	ring, err := New(Options{Ring: "shop", Member: name, Key: w.key, Namespace: "default", Client: l, Logger: logr.New(&teller{w: w, r: r})})
	if err != nil {
		w.t.Fatal(err)
	}
	start := time.Now()
	ring.clock = clock{
		now:  func() time.Time { return start.Add(time.Duration(float64(time.Since(start)) * rate)) },
		span: func(d time.Duration) time.Duration { return time.Duration(float64(d)/rate) + 1 },
	}
	r.ring = ring
	ctx, stop := context.WithCancel(w.ctx)
	r.stop = stop
	w.tell("%s starts, with a clock of %.2f", r, rate)
	w.mu.Lock()
	w.live = append(w.live, r)
	w.mu.Unlock()
	var workers sync.WaitGroup
	for i, key := range w.keys {
		workers.Go(func() { w.workOn(ctx, r, key, rand.New(rand.NewPCG(uint64(i), hashOf(name)))) })
	}
	w.all.Go(func() {
		err := ring.Start(ctx)
		workers.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.tellLocked("%s has ended: %v", r, err)
		if err != nil && !r.dead {
			w.fail("%s: %v", r, err)
		}
		w.live = slices.DeleteFunc(w.live, func(other *replica) bool { return other == r })
	})
	return r
}

// workOn works on a key again and again. Work goes on for up to a second after its context was cancelled.
func (w *world) workOn(ctx context.Context, r *replica, key string, random *rand.Rand) {
	for ctx.Err() == nil {
		changed := r.ring.Changed()
		held, release, err := r.ring.Hold(context.Background(), key)
		if err != nil {
			select {
			case <-changed:
			case <-time.After(5 * time.Second):
			case <-ctx.Done():
			}
			continue
		}
		w.begin(r, key)
		select {
		case <-time.After(time.Duration(random.Int64N(int64(w.work)))):
		case <-held.Done():
			time.Sleep(time.Duration(random.Int64N(int64(time.Second))))
		}
		w.finish(r, key)
		release()
		time.Sleep(time.Duration(random.Int64N(int64(w.work / 4))))
	}
}

func (w *world) begin(r *replica, key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.dead {
		return
	}
	if other := w.holder[key]; other != nil {
		w.fail("%s begins work on %s, which %s has", r, key, other)
	}
	w.holder[key] = r
	if w.last[key] != r.name {
		if w.last[key] != "" {
			w.moved++
		}
		w.last[key] = r.name
	}
}

func (w *world) finish(r *replica, key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.holder[key] == r {
		delete(w.holder, key)
	}
}

// crash ends a replica at once: its work, and its requests.
func (w *world) crash(r *replica) {
	w.mu.Lock()
	r.dead = true
	w.tellLocked("%s crashes", r)
	maps.DeleteFunc(w.holder, func(_ string, other *replica) bool { return other == r })
	w.live = slices.DeleteFunc(w.live, func(other *replica) bool { return other == r })
	w.mu.Unlock()
	r.link.kill()
	r.stop()
}

func (w *world) replicas() []*replica {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.live)
}

// checkOne looks at all keys: no two replicas may write for one.
func (w *world) checkOne() {
	live := w.replicas()
	for _, key := range w.keys {
		var may []*replica
		for _, r := range live {
			if r.ring.Check(key) == nil {
				may = append(may, r)
			}
			w.checkTerm(r, key)
		}
		w.mu.Lock()
		if may = slices.DeleteFunc(may, func(r *replica) bool { return r.dead }); len(may) > 1 {
			w.fail("%v may write for %s", may, key)
		}
		w.mu.Unlock()
	}
}

// checkTerm sees that a member has a term in what it is to have: a new one if it had none meanwhile, when requests are dropped. If
// another is to have the key, that is told of all, or has gone.
func (w *world) checkTerm(r *replica, key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.ring.mu.Lock()
	term, owns := r.ring.termOf(key), r.ring.ownerOf(hashOf(key)) == r.name
	r.ring.mu.Unlock()
	switch before := r.terms[key]; {
	case term == 0 && owns:
		w.fail("%s owns %s without a term", r, key)
	case term == 0:
		r.lost[key] = true
	case term < before, r.lost[key] && owns && term == before:
		w.fail("%s has term %d of %s, after %d", r, term, key, before)
	case owns || !r.lost[key]:
		r.terms[key], r.lost[key] = term, false
	}
}

// settled returns what is missing until each key has the owner on which all agree, or "".
func (w *world) settled() string {
	live := w.replicas()
	for _, key := range w.keys {
		owners, may := map[string]bool{}, map[string]bool{}
		for _, r := range live {
			if owner := r.ring.Owner(key); owner != "" {
				owners[owner] = true
			}
			if r.ring.Check(key) == nil {
				may[r.name] = true
			}
		}
		if len(live) > 0 && (len(owners) != 1 || !maps.Equal(owners, may)) {
			why := fmt.Sprintf("%s has owners %v, and %v may write for it", key, owners, may)
			for _, r := range live {
				why += fmt.Sprintf("\n\t%s: %v, members %v", r, r.ring.Check(key), r.ring.Members())
			}
			return why
		}
	}
	return ""
}

// settle waits until all is settled, for at most the time, and returns how long that took.
func (w *world) settle(most time.Duration) time.Duration {
	begun := time.Now()
	for {
		missing := w.settled()
		took := time.Since(begun)
		if missing == "" {
			return took
		}
		if took > most {
			w.mu.Lock()
			w.fail("after %s: %s", took, missing)
			w.mu.Unlock()
			return took
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// close ends all replicas.
func (w *world) close() {
	for _, r := range w.replicas() {
		r.stop()
	}
	w.all.Wait()
	w.end()
	time.Sleep(time.Minute) // requests that nobody waits for
}

// teller writes the log of a replica into the story of its world.
type teller struct {
	w *world
	r *replica
}

func (*teller) Init(logr.RuntimeInfo)            {}
func (*teller) Enabled(int) bool                 { return true }
func (t *teller) WithValues(...any) logr.LogSink { return t }
func (t *teller) WithName(string) logr.LogSink   { return t }
func (t *teller) Info(_ int, msg string, kv ...any) {
	t.w.tell("%s: %s %v", t.r, msg, kv)
}
func (t *teller) Error(err error, msg string, kv ...any) {
	t.w.tell("%s: %s: %v %v", t.r, msg, err, kv)
}
