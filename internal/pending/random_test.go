// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package pending_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tarn-dev/tarn/internal/note"
	"github.com/tarn-dev/tarn/internal/pending"
	"github.com/tarn-dev/tarn/internal/variable"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

const (
	// seedVariable is the first seed. It repeats nearly every failure that printed it: what happens at the same moment comes
	// in any order.
	seedVariable = "TARN_OWN_WRITES_SEED"
	// roundsVariable is how many seeds there are for each mode.
	roundsVariable = "TARN_OWN_WRITES_ROUNDS"
)

// mode is what happens in a world beside plain writes.
type mode struct {
	budget  int64
	poison  bool // some objects are such that the cache cannot hold them
	refused int  // one question of so many is not answered; 0 for none
	relists bool // the watch begins anew now and then
}

// Programs write through the client and behind its back, requests and answers take their time or are lost, and the watch
// is late. What readers see keeps the promises of docs/consistency.md: own writes are there at once, no key goes back in
// time, and a list has all that it must have, or is an error.
func TestRandomWritesAreReadAsPromised(t *testing.T) {
	for name, m := range map[string]mode{
		"plain":                        {},
		"without room":                 {budget: -1},
		"lost":                         {poison: true},
		"lost, without room":           {poison: true, budget: -1},
		"unanswered":                   {refused: 4, poison: true},
		"new lists":                    {relists: true, poison: true},
		"new lists and little of else": {relists: true, budget: -1, refused: 8},
	} {
		t.Run(name, func(t *testing.T) {
			first := variable.Number(t, seedVariable, rand.Uint64())
			for n := range variable.Number(t, roundsVariable, 5) {
				synctest.Test(t, func(t *testing.T) {
					if newWorld(t, m, first+n).run(); t.Failed() {
						t.Logf("%s=%d", seedVariable, first+n)
					}
				})
			}
		})
	}
}

// world is a server, a cache and those who use them.
type world struct {
	*line
	mode
	t      *testing.T
	seed   uint64
	watch  *lateWatch
	writes *pending.Writes[thing]
	engine *watchcache.Engine[thing, struct{}]

	known sync.Mutex        // guards what follows
	least map[string]uint64 // the revision as of which reads of a key are at least
	names int               // that the server has made
}

// revisions are revisions of keys.
type revisions map[string]map[uint64]bool

func (r revisions) add(key string, revision uint64) {
	if r[key] == nil {
		r[key] = map[uint64]bool{}
	}
	r[key][revision] = true
}

func newWorld(t *testing.T, m mode, seed uint64) *world {
	w := &world{
		t: t, mode: m, seed: seed, least: map[string]uint64{},
		line:   &line{history: history{versions: map[string][]version{}}, random: rand.New(rand.NewPCG(seed, 0)), fails: m.refused},
		engine: watchcache.New[thing, struct{}](watchcache.Options[thing]{}),
	}
	w.engine.Replace(nil, 1)
	w.writes = pending.New(pending.Options[thing]{
		State: w.engine.Snapshot, Wait: w.engine.WaitUntilFreshAfter, Ask: w.ask, Budget: pending.NewBudget(m.budget),
		UID:  func(t thing) types.UID { return t.uid },
		Size: func(t thing) int { return t.size },
		Ended: func(e pending.Ending) {
			if !e.NoRoom || m.budget == 0 {
				t.Errorf("a write has ended: %+v", e)
			}
		},
	})
	w.watch = &lateWatch{line: w.line, engine: w.engine, writes: w.writes}
	return w
}

// run lets everybody loose for a minute. In the end nothing is kept, though nobody reads, and reads show what the server has.
func (w *world) run() {
	defer w.writes.Close()
	var all sync.WaitGroup
	end, n := time.Now().Add(time.Minute), uint64(0)
	loose := func(step func(*rand.Rand)) {
		n++
		random := rand.New(rand.NewPCG(w.seed, n))
		all.Go(func() {
			for time.Now().Before(end) && !w.t.Failed() {
				time.Sleep(time.Duration(random.Int64N(int64(time.Second))))
				step(random)
			}
		})
	}
	for range 3 {
		loose(w.write)
	}
	loose(w.meddle)
	loose(w.late)
	for range 3 {
		loose(w.reader().read)
	}
	all.Wait()
	w.answers()
	for key := range w.versions { // an entry stays as long as there is an object that the cache cannot hold
		if w.now(key).poison {
			w.do(update(version{key: key}))
		}
	}
	w.watch.bring(len(w.log), true)
	time.Sleep(time.Minute)
	if !w.writes.Empty() {
		w.t.Errorf("something is kept: %+v", w.writes.All(pending.Target{All: true}, 10))
	}
	r := w.reader()
	for key := range w.versions {
		if !w.now(key).poison {
			r.least[key] = w.at()
		}
	}
	r.list("", "")
	for key := range w.versions {
		r.get(key)
	}
}

// late has the watch bring something, a little or all that there is.
func (w *world) late(random *rand.Rand) {
	if random.IntN(10) == 0 {
		time.Sleep(time.Duration(random.Int64N(int64(15 * time.Second))))
	}
	if w.relists && random.IntN(8) == 0 {
		w.watch.relist()
	}
	w.watch.bring([]int{1, 3, 1000}[random.IntN(3)], random.IntN(2) == 0)
}

// like returns what to write.
func (w *world) like(random *rand.Rand) version {
	return version{
		key:       fmt.Sprintf("%c/%d", 'a'+random.IntN(2), random.IntN(3)),
		finalizer: random.IntN(4) == 0,
		twice:     random.IntN(3) == 0,
		poison:    w.poison && random.IntN(3) == 0,
		thing:     thing{size: 100, label: []string{"x", "y"}[random.IntN(2)]},
	}
}

// meddle writes behind the client's back.
func (w *world) meddle(random *rand.Rand) {
	like := w.like(random)
	w.do([]effect{create(like), update(like), update(like), remove(like.key, ""), release(like.key)}[random.IntN(5)])
}

// write writes through the client.
func (w *world) write(random *rand.Rand) {
	like := w.like(random)
	switch random.IntN(12) {
	case 0:
		w.deleteAllOf(random, like)
	case 1:
		w.generate(random, like)
	case 2:
		w.request(random, like.key, remove(like.key, ""), false)
	case 3:
		w.request(random, like.key, remove(like.key, ""), false)
		w.request(random, like.key, create(like), false)
	case 4, 5, 6:
		w.request(random, like.key, create(like), false)
	default:
		w.request(random, like.key, update(like), random.IntN(4) == 0)
	}
}

// request writes one object. Partly says that the response is not the object.
func (w *world) request(random *rand.Rand, key string, f effect, partly bool) {
	lost := random.IntN(5) == 0
	w.travel()
	if lost && random.IntN(2) == 0 { // on its way there
		w.note(entry{Key: key, Outcome: note.Ambiguous}, 0)
		if random.IntN(2) == 0 {
			w.travel()
			w.do(f)
		}
		return
	}
	v, done := w.do(f)
	w.travel()
	switch e := (entry{Key: key, Revision: v.revision, UID: v.thing.uid}); {
	case lost && v.poison: // if nobody asks in time, the cache has the object of before
		w.note(entry{Key: key, Outcome: note.Ambiguous}, 0)
	case lost:
		w.note(entry{Key: key, Outcome: note.Ambiguous}, v.revision)
	case !done:
	case !v.there:
		w.note(entry{Key: key, Outcome: note.Gone, UID: v.thing.uid}, v.revision)
	case partly:
		e.Outcome = note.Ambiguous
		w.note(e, v.revision)
	default:
		slow := random.IntN(4) == 0
		e.Bytes, e.Make = 100, func() (pending.Made[thing], error) {
			if slow {
				w.travel()
			}
			if v.poison {
				return pending.Made[thing]{Lost: errPoison}, nil
			}
			return pending.Made[thing]{Value: v.thing, Held: true}, nil
		}
		w.note(e, v.revision)
	}
}

// note notes an entry, after which reads are as of a revision.
func (w *world) note(e entry, revision uint64) {
	w.known.Lock()
	defer w.known.Unlock()
	w.writes.Note(e)
	w.least[e.Key] = max(w.least[e.Key], revision)
}

// ambiguous notes that anything with a prefix may have been written, and these were.
func (w *world) ambiguous(prefix string, written []version) {
	w.known.Lock()
	defer w.known.Unlock()
	w.writes.NotePrefix(prefix, 0)
	for _, v := range written {
		if !v.poison {
			w.least[v.key] = max(w.least[v.key], v.revision)
		}
	}
}

// generate creates an object of which the server makes the name. The answer is lost.
func (w *world) generate(random *rand.Rand, like version) {
	w.travel()
	var written []version
	if random.IntN(2) == 0 {
		w.known.Lock()
		w.names++
		like.key = fmt.Sprintf("%s/made-%d", like.key[:1], w.names)
		w.known.Unlock()
		v, _ := w.do(create(like))
		written = append(written, v)
	}
	w.travel()
	w.ambiguous(like.key[:2], written)
}

// deleteAllOf deletes the objects of a namespace with a label, as a server does: one after another, as it has listed
// them. If the answer is lost, these may be some of them.
func (w *world) deleteAllOf(random *rand.Rand, like version) {
	w.travel()
	prefix, lost := like.key[:2], random.IntN(3) == 0
	w.history.mu.Lock()
	listed := w.history.list(prefix)
	w.history.mu.Unlock()
	var written []version
	var notes []entry
	for _, v := range listed {
		// Of one that the cache could not hold, a response that comes late may be shown; see docs/consistency.md.
		if v.thing.label != like.thing.label || v.poison || lost && random.IntN(3) == 0 {
			continue
		}
		time.Sleep(time.Duration(random.Int64N(int64(20 * time.Millisecond))))
		if _, done := w.do(remove(v.key, v.thing.uid)); !done {
			continue
		}
		w.history.mu.Lock()
		written = append(written, w.left(v.key, v.thing.uid)) // maybe before
		w.history.mu.Unlock()
		e := entry{Key: v.key, Outcome: note.Ambiguous}
		notes = append(notes, e)
	}
	w.travel()
	if lost {
		w.ambiguous(prefix, written)
		return
	}
	for n, e := range notes {
		revision := written[n].revision
		if written[n].poison { // since the list; if nobody asks in time, the cache has the object of before
			revision = 0
		}
		w.note(e, revision)
	}
}
