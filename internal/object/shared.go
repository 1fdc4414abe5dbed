// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarn-dev/tarn/internal/flat"
	"github.com/tarn-dev/tarn/internal/flat/dictionary"
)

const (
	// defaultBudget is the number of bytes for decoded objects of a cache. A list without copies
	// refers to the memory of all objects that it returns, so that keeping these for some seconds
	// more does not need more memory at any time than the list did. It is also less than what
	// client-go takes for the same objects all the time.
	defaultBudget = 2 << 30
	// sharedFor is how long a decoded object is kept at least after it was read without a copy. It
	// is kept at most twice as long. To decode 20,000 Pods again takes 2 % of one core then.
	sharedFor = 10 * time.Second
	// sharedTold is the number of bytes from which a store reports that it keeps decoded objects.
	sharedTold = 4 << 20
	// sharedBytes is what a decoded object takes in addition to its memory.
	sharedBytes = 128
)

// Budget is the number of bytes that the stores of one cache have together for the decoded objects
// that reads without copies share. It is safe for concurrent use.
type Budget struct {
	limit int64
	taken atomic.Int64
}

// NewBudget returns a budget of so many bytes. Zero stands for 2 GiB, or for half of the memory
// limit of the Go runtime if that is less. With a negative number nothing is kept.
func NewBudget(bytes int64) *Budget {
	if bytes == 0 {
		bytes = min(defaultBudget, debug.SetMemoryLimit(-1)/2)
	}
	return &Budget{limit: bytes}
}

// take takes n bytes, and reports whether the budget has that many.
func (b *Budget) take(n int64) bool {
	if b.taken.Add(n) <= b.limit {
		return true
	}
	b.giveBack(n)
	return false
}

func (b *Budget) giveBack(n int64) { b.taken.Add(-n) }

// Sharing says how a store keeps the decoded objects that reads without copies share.
type Sharing struct {
	// Budget bounds their memory; nil is a budget of the store alone.
	Budget *Budget
	// Kept, if set, is called once: when at least 4 MiB of such objects stay because they were read
	// again ten seconds later.
	Kept func(SharedSize)
	// Full, if set, is called once: when an object was not kept because the budget was used up.
	Full func(SharedSize)
}

// SharedSize says how many decoded objects a store keeps for reads without copies.
type SharedSize struct {
	// Objects is their number.
	Objects int
	// Bytes is about how much memory they take, including strings that they share with the flat
	// objects.
	Bytes int64
}

// Share sets how the store keeps the decoded objects that reads without copies share. It is called
// before the first read.
func (f *Form) Share(s Sharing) { f.shared.report(s) }

// SharedSize returns how many decoded objects the store keeps for reads without copies.
func (f *Form) SharedSize() SharedSize { return f.shared.size() }

// DropShared lets go of all decoded objects that the store keeps for reads without copies: later reads decode again.
func (f *Form) DropShared() { f.shared.dropAll() }

// Forget lets go of the decoded object of o, because o was replaced or deleted. A reader of an old
// state may decode o again; that one goes when it is not read any more.
func (f *Form) Forget(o Object) {
	if o.IsFlat() && f.shared.objects.Load() > 0 {
		f.shared.drop(o.flat.Identity())
	}
}

// shared holds the objects that were decoded for reads without a copy, so that later such reads
// return the same objects. An object that is not read again goes within twice sharedFor. The key is
// the identity of the flat object, because a comparison of its bytes would take longer than
// decoding it again.
//
// A timer calls sweep as long as there are objects. It holds the shared, which therefore lives a
// little longer than its store.
type shared struct {
	budget     *Budget
	kept, full func(SharedSize) // each is called once

	dict     atomic.Pointer[dictionary.Dictionary] // only objects of this dictionary are kept
	made     sync.Map                              // from flat.Identity to *sharedObject
	objects  atomic.Int64                          // the number of made, and of those about to be
	bytes    atomic.Int64                          // that these have taken of the budget
	round    atomic.Uint64                         // the number of sweeps
	sweeping atomic.Bool                           // the timer runs
}

// sharedObject is an object that reads share.
type sharedObject struct {
	object any
	bytes  int64
	made   uint64        // the round in which it was decoded
	read   atomic.Uint64 // the round of the last read
}

// report takes over s.
func (s *shared) report(from Sharing) {
	once := func(f func(SharedSize)) func(SharedSize) {
		var once sync.Once
		return func(size SharedSize) {
			if f != nil {
				once.Do(func() { f(size) })
			}
		}
	}
	s.budget, s.kept, s.full = from.Budget, once(from.Kept), once(from.Full)
	if s.budget == nil {
		s.budget = NewBudget(0)
	}
}

// begin drops all objects, and accepts objects of dict from now on. Objects of an older dictionary
// are asked for only by readers of old states.
func (s *shared) begin(dict *dictionary.Dictionary) {
	s.dict.Store(dict)
	if s.objects.Load() > 0 { // an empty map takes memory from the first look on
		s.dropAll()
	}
}

func (s *shared) dropAll() {
	s.made.Range(func(key, _ any) bool { s.drop(key.(flat.Identity)); return true })
}

// find returns the object that was decoded from o and kept.
func (s *shared) find(o flat.Object) (any, bool) {
	known, ok := s.made.Load(o.Identity())
	if !ok {
		return nil, false
	}
	found := known.(*sharedObject)
	if now := s.round.Load(); found.read.Load() != now {
		found.read.Store(now) // only if need be, because other readers have it in their caches
	}
	return found.object, true
}

// keep returns the object that reads of o share: made, or what another goroutine has kept earlier.
// If the budget has no room, nothing is kept.
func (s *shared) keep(o flat.Object, made any) any {
	if o.Dictionary() != s.dict.Load() {
		return made
	}
	added := &sharedObject{object: made, bytes: sharedBytes + int64(MemoryOf(made)), made: s.round.Load()}
	added.read.Store(added.made)
	if !s.budget.take(added.bytes) {
		s.full(s.size())
		return made
	}
	s.count(1, added.bytes)
	if known, ok := s.made.LoadOrStore(o.Identity(), added); ok {
		s.count(-1, -added.bytes)
		s.budget.giveBack(added.bytes)
		return known.(*sharedObject).object
	}
	if o.Dictionary() != s.dict.Load() { // begin may have passed by before made was there
		s.drop(o.Identity())
	}
	s.sweepLater()
	return made
}

// drop lets go of an object, if it is kept.
func (s *shared) drop(key flat.Identity) {
	if gone, ok := s.made.LoadAndDelete(key); ok {
		bytes := gone.(*sharedObject).bytes
		s.count(-1, -bytes)
		s.budget.giveBack(bytes)
	}
}

func (s *shared) count(objects, bytes int64) {
	s.objects.Add(objects)
	s.bytes.Add(bytes)
}

func (s *shared) size() SharedSize {
	return SharedSize{Objects: int(s.objects.Load()), Bytes: s.bytes.Load()}
}

// sweepLater has sweep called, if there is anything to look at and no call is due.
func (s *shared) sweepLater() {
	if s.objects.Load() > 0 && !s.sweeping.Load() && s.sweeping.CompareAndSwap(false, true) {
		time.AfterFunc(sharedFor, s.sweep)
	}
}

// sweep drops the objects that were not read since the sweep before.
func (s *shared) sweep() {
	ended, again := s.round.Add(1)-1, SharedSize{}
	s.made.Range(func(key, value any) bool {
		switch o := value.(*sharedObject); {
		case o.read.Load() < ended:
			s.drop(key.(flat.Identity))
		case o.made < ended:
			again.Objects++
			again.Bytes += o.bytes
		}
		return true
	})
	if again.Bytes >= sharedTold {
		s.kept(again)
	}
	s.sweeping.Store(false)
	s.sweepLater()
}
