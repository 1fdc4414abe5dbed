// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package pending_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tarn-dev/tarn/internal/pending"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

// version is what a server had under a key from a revision on.
type version struct {
	key       string
	revision  uint64
	there     bool
	thing     thing
	finalizer bool // a deletion waits for it
	twice     bool // a deletion is two writes, as that of a Pod on no node
	poison    bool // the cache cannot hold it
}

// String is for failures.
func (v version) String() string {
	switch {
	case !v.there:
		return fmt.Sprintf("%d: none", v.revision)
	case v.poison:
		return fmt.Sprintf("%d: %s, lost", v.revision, v.thing.uid)
	}
	return fmt.Sprintf("%d: %s with %s", v.revision, v.thing.uid, v.thing.label)
}

func (v version) item() item { return item{Key: v.key, Revision: v.revision, Value: v.thing} }

// history is a server that keeps all that it has ever had.
type history struct {
	mu       sync.Mutex           // guards what follows
	log      []version            // in their order: the revision of log[n] is n+2
	versions map[string][]version // by key
	objects  int                  // that were created
}

// at returns the revision of h, of which the lock is held.
func (h *history) at() uint64 { return uint64(len(h.log)) + 1 }

// now returns what there is under a key.
func (h *history) now(key string) version {
	if all := h.versions[key]; len(all) > 0 {
		return all[len(all)-1]
	}
	return version{key: key}
}

// write makes a new version.
func (h *history) write(v version) version {
	v.revision, v.poison = h.at()+1, v.poison && v.there
	h.log = append(h.log, v)
	h.versions[v.key] = append(h.versions[v.key], v)
	return v
}

// effect is what a request does. It is not done if the server refuses it.
type effect func(h *history) (v version, done bool)

// do does what a request asks for.
func (h *history) do(f effect) (v version, done bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return f(h)
}

// create makes an object like v.
func create(like version) effect {
	return func(h *history) (version, bool) {
		if h.now(like.key).there {
			return like, false
		}
		h.objects++
		v := like
		v.there, v.thing.uid = true, types.UID(fmt.Sprint("uid-", h.objects))
		return h.write(v), true
	}
}

// update makes an object like v of the one that is there.
func update(like version) effect {
	return func(h *history) (version, bool) {
		v := h.now(like.key)
		if !v.there {
			return v, false
		}
		v.thing.label, v.poison = like.thing.label, like.poison
		return h.write(v), true
	}
}

// left returns the version with which an object was deleted, or got its deletionTimestamp if it has a finalizer.
func (h *history) left(key string, uid types.UID) version {
	all := h.versions[key]
	return all[slices.IndexFunc(all, func(v version) bool { return v.thing.uid == uid && (v.thing.leaving && v.finalizer || !v.there) })]
}

// remove deletes the object with a UID, or any if that is empty. One with a finalizer stays, and changes once.
func remove(key string, uid types.UID) effect {
	return func(h *history) (version, bool) {
		v := h.now(key)
		if !v.there || uid != "" && v.thing.uid != uid {
			return v, false
		}
		if v.thing.leaving {
			return v, true
		}
		if v.twice && !v.finalizer {
			v.thing.leaving = true
			v = h.write(v)
			v.thing.leaving = false
		}
		v.there, v.thing.leaving = v.finalizer, v.finalizer
		return h.write(v), true
	}
}

// release deletes an object for good.
func release(key string) effect {
	return func(h *history) (version, bool) {
		v := h.now(key)
		if !v.there {
			return v, false
		}
		v.there = false
		return h.write(v), true
	}
}

// list returns what there is with a prefix, in the order of the keys.
func (h *history) list(prefix string) (found []version) {
	for _, key := range slices.Sorted(maps.Keys(h.versions)) {
		if v := h.now(key); v.there && strings.HasPrefix(key, prefix) {
			found = append(found, v)
		}
	}
	return found
}

var (
	errPoison = errors.New("the transform failed")
	errRandom = errors.New("the server does not answer")
)

// line is how requests get to a server and their answers back, in random times.
type line struct {
	history
	mu     sync.Mutex // guards what follows
	random *rand.Rand
	fails  int // one question of so many; 0 for none
}

// travel takes a time, mostly a short one.
func (l *line) travel() {
	l.mu.Lock()
	most := []time.Duration{time.Millisecond, 50 * time.Millisecond, time.Second}[l.random.IntN(3)]
	pause := time.Duration(l.random.Int64N(int64(most)))
	l.mu.Unlock()
	time.Sleep(pause)
}

func (l *line) refuses() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fails > 0 && l.random.IntN(l.fails) == 0
}

// answers has the server answer all questions from now on.
func (l *line) answers() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fails = 0
}

// question has the server answered by f, which is called with its lock held.
func (l *line) question(f func(h *history)) error {
	l.travel()
	defer l.travel()
	if l.refuses() {
		return errRandom
	}
	l.history.mu.Lock()
	defer l.history.mu.Unlock()
	f(&l.history)
	return nil
}

func (l *line) ask(_ context.Context, of pending.Target) (answer pending.Answer[thing], err error) {
	err = l.question(func(h *history) {
		answer.Revision = h.at()
		for _, v := range h.list(of.Key) {
			switch {
			case !of.All && v.key != of.Key:
			case v.poison:
				answer.Lost = append(answer.Lost, pending.Lost{Key: v.key, UID: v.thing.uid, Err: errPoison})
			default:
				answer.Items = append(answer.Items, v.item())
			}
		}
	})
	return answer, err
}

// lateWatch brings what a server has written to an engine.
type lateWatch struct {
	*line
	engine   *watchcache.Engine[thing, struct{}]
	writes   *pending.Writes[thing]
	next     int    // in the log
	relisted uint64 // the newest revision at which it began anew; guarded by the lock of the history
}

// bring brings up to so many versions. Of those that the cache cannot hold it brings nothing, not even the revision.
func (w *lateWatch) bring(count int, bookmark bool) {
	w.history.mu.Lock()
	events := slices.Clone(w.log[w.next:min(w.next+count, len(w.log))])
	w.history.mu.Unlock()
	w.next += len(events)
	for _, v := range events {
		if !v.poison {
			w.engine.Apply(watchcache.Change[thing, struct{}]{Item: v.item(), Deleted: !v.there})
		}
	}
	if bookmark {
		w.engine.Bookmark(uint64(w.next) + 1)
	}
}

// relist has the watch begin anew, with a list that lacks what the cache cannot hold.
func (w *lateWatch) relist() {
	w.history.mu.Lock()
	var items []item
	for _, v := range w.history.list("") {
		if !v.poison {
			items = append(items, v.item())
		}
	}
	w.relisted, w.next = w.at(), len(w.log)
	at := w.relisted
	w.history.mu.Unlock()
	w.engine.Replace(items, at)
	w.writes.Listed(0)
}
