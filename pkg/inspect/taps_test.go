// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/inspected"
	"github.com/tarn-dev/tarn/pkg/informers"
)

// source is an informer whose events a test makes.
type source struct {
	mu       sync.Mutex
	see      map[*func(inspected.Change)]struct{} // of the followers
	received uint64
	refuses  error
	slow     time.Duration // to begin
	removed  chan struct{}
}

// remove ends the followers, as the removal of an informer does.
func (s *source) remove() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.removed)
}

func (s *source) Received() uint64 { return s.received }

func (s *source) Follow(ctx context.Context, begun func(), see func(inspected.Change)) error {
	if s.refuses != nil {
		return s.refuses
	}
	select {
	case <-time.After(s.slow):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.mu.Lock()
	if s.see == nil {
		s.see = map[*func(inspected.Change)]struct{}{}
	}
	s.see[&see] = struct{}{}
	if s.removed == nil {
		s.removed = make(chan struct{})
	}
	removed := s.removed
	s.mu.Unlock()
	begun()
	select {
	case <-ctx.Done():
	case <-removed:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.see, &see)
	return context.Cause(ctx)
}

// send makes an event, and returns how many follow.
func (s *source) send(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for see := range s.see {
		(*see)(inspected.Change{Type: watch.Added, Key: client.ObjectKey{Namespace: "n", Name: name}, Revision: 7})
	}
	return len(s.see)
}

// cacheOf returns what runs functions as a cache does, and what ends it and waits for them.
func cacheOf(t *testing.T) (start func(func(context.Context)) bool, end func()) {
	ctx, cancel := context.WithCancelCause(t.Context())
	running := sync.WaitGroup{}
	return func(f func(context.Context)) bool { running.Go(func() { f(ctx) }); return true }, func() {
		cancel(errors.New("the cache has ended"))
		running.Wait()
	}
}

func keyOf(n int) (k informers.Key) {
	k.Kind = fmt.Sprint(n)
	return k
}

func TestEventsAreFollowedForAMinuteAfterTheLastLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, end := cacheOf(t)
		taps, s := newTaps(start), &source{}
		if n := s.send("before"); n != 0 {
			t.Fatal("somebody follows, and nobody has looked")
		}
		first := taps.poll(t.Context(), keyOf(1), []inspected.Followed{s}, 0)
		for range 5 {
			time.Sleep(lookFor - time.Second)
			synctest.Wait()
			if n := s.send("event"); n != 1 {
				t.Fatalf("%d follow while somebody looks", n)
			}
			taps.poll(t.Context(), keyOf(1), []inspected.Followed{s}, 0)
		}
		seen := taps.poll(t.Context(), keyOf(1), []inspected.Followed{s}, 3)
		if len(seen.Events) != 2 || seen.Newest != 5 || seen.Counts[watch.Added] != 5 || seen.Since != first.Since {
			t.Errorf("seen: %+v", seen)
		}
		time.Sleep(lookFor + time.Second)
		synctest.Wait()
		if n := s.send("late"); n != 0 || len(taps.open) != 0 {
			t.Errorf("%d follow, and %d taps are open, a minute after the last look", n, len(taps.open))
		}
		again := taps.poll(t.Context(), keyOf(1), []inspected.Followed{s}, 0)
		if again.Newest != 5 || len(again.Events) != 0 || !again.Since.After(first.Since) {
			t.Errorf("a new look begins with %+v", again)
		}
		s.send("again")
		for _, after := range []uint64{5, 99} { // 99 was told by another process
			if seen := taps.poll(t.Context(), keyOf(1), []inspected.Followed{s}, after); len(seen.Events) != 1 || seen.Events[0].Number != 6 {
				t.Errorf("after %d, who has looked before sees %+v", after, seen.Events)
			}
		}
		end() // waits for all goroutines
	})
}

// TestAnInformerThatIsMadeAgainIsFollowed: what it has received before a look is counted, and so is said why
// it cannot be followed.
func TestAnInformerThatIsMadeAgainIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, end := cacheOf(t)
		taps, first, second := newTaps(start), &source{received: 40}, &source{received: 3}
		if seen := taps.poll(t.Context(), keyOf(1), []inspected.Followed{first}, 0); seen.Missed != 0 {
			t.Errorf("%d are missed that came before the first look", seen.Missed)
		}
		for range 2 {
			if seen := taps.poll(t.Context(), keyOf(1), []inspected.Followed{second}, 0); seen.Missed != 3 {
				t.Errorf("%d are missed, want 3", seen.Missed)
			}
			synctest.Wait()
		}
		deaf := &source{refuses: errors.New("deaf")}
		taps.poll(t.Context(), keyOf(1), []inspected.Followed{second, deaf}, 0)
		synctest.Wait()
		if seen := taps.poll(t.Context(), keyOf(1), []inspected.Followed{second, deaf}, 0); seen.Problem != "deaf" {
			t.Errorf("the problem is %q", seen.Problem)
		}
		if seen := taps.poll(t.Context(), keyOf(1), []inspected.Followed{second}, 0); seen.Problem != "" {
			t.Errorf("the problem of an informer that is gone is %q", seen.Problem)
		}
		end()
		time.Sleep(2 * lookFor)
	})
}

// TestAnInformerThatIsFollowedLateHasMissedWhatCameSinceTheFirstLook: there were too many, and one of them is removed.
// Events before the first poll are not missed.
func TestAnInformerThatIsFollowedLateHasMissedWhatCameSinceTheFirstLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, end := cacheOf(t)
		taps, sources := newTaps(start), make([]source, maxFollowed+2)
		all := make([]inspected.Followed, len(sources))
		for n := range sources {
			sources[n].received = 1000
			all[n] = &sources[n]
		}
		taps.poll(t.Context(), keyOf(1), all, 0)
		synctest.Wait()
		last := &sources[maxFollowed]
		last.received += 7
		sources[0].remove()
		synctest.Wait()
		if seen := taps.poll(t.Context(), keyOf(1), all[1:], 0); seen.Missed != 7 || seen.NotFollowed != 1 {
			t.Errorf("%d are missed, want 7, and %d are not followed, want 1", seen.Missed, seen.NotFollowed)
		}
		synctest.Wait()
		if n := last.send("x"); n != 1 {
			t.Errorf("%d follow the one that was not followed before", n)
		}
		taps.poll(t.Context(), keyOf(1), all[1:2], 0)
		taps.mu.Lock()
		known := len(taps.open[keyOf(1)].before)
		taps.mu.Unlock()
		if known != 1 {
			t.Errorf("%d informers are held, want that which is left", known)
		}
		end()
		time.Sleep(2 * lookFor)
	})
}

func TestTheCacheEndsWhatFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, end := cacheOf(t)
		taps, s := newTaps(start), &source{}
		taps.poll(t.Context(), keyOf(1), []inspected.Followed{s}, 0)
		synctest.Wait()
		end()
		if n := s.send("late"); n != 0 {
			t.Errorf("%d follow after the end of the cache", n)
		}
		time.Sleep(2 * lookFor)
	})
}

func TestWhatIsFollowedIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, end := cacheOf(t)
		taps := newTaps(start)
		kinds := make([]source, maxTaps+1)
		for n := range kinds {
			taps.poll(t.Context(), keyOf(n), []inspected.Followed{&kinds[n]}, 0)
			time.Sleep(time.Second)
			taps.poll(t.Context(), keyOf(0), []inspected.Followed{&kinds[0]}, 0) // so the second goes
			synctest.Wait()
		}
		for n := range kinds {
			want := 1
			if n == 1 {
				want = 0
			}
			if got := kinds[n].send("x"); got != want {
				t.Errorf("kind %d is followed by %d, want %d", n, got, want)
			}
		}
		scopes := make([]source, maxFollowed+5)
		var followed []inspected.Followed
		for n := range scopes {
			followed = append(followed, &scopes[n])
		}
		seen := taps.poll(t.Context(), keyOf(0), followed, 0)
		synctest.Wait()
		number := 0
		for n := range scopes {
			number += scopes[n].send("x")
		}
		if number != maxFollowed-1 || seen.NotFollowed != 5 { // and the one of before
			t.Errorf("%d of %d namespaces are followed, %d are not", number, len(scopes), seen.NotFollowed)
		}
		end()
		time.Sleep(2 * lookFor)
	})
}

// TestARingHasTheNewestEventsWithinItsBytes adds random events.
func TestARingHasTheNewestEventsWithinItsBytes(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	numbers := uint64(0)
	r := newRing(4<<10, 0, func() uint64 { numbers++; return numbers })
	for n := range uint64(2000) {
		name := strings.Repeat("x", random.IntN(254))
		r.add(time.Time{}, inspected.Change{Type: watch.Modified, Key: client.ObjectKey{Name: name}})
		bytes := 0
		for i, e := range r.events {
			bytes += e.size()
			if e.Number != n+2-uint64(len(r.events)-i) {
				t.Fatalf("seed %d: after %d events, number %d is at %d of %d", seed, n+1, e.Number, i, len(r.events))
			}
		}
		if bytes != r.bytes || bytes > r.limit || bytes < r.limit/2 && n > 100 {
			t.Fatalf("seed %d: after %d events the ring holds %d bytes and says %d", seed, n+1, bytes, r.bytes)
		}
		if cap(r.events) > 256 {
			t.Fatalf("seed %d: the slice has room for %d events", seed, cap(r.events))
		}
		after := n + 1 - min(n+1, random.Uint64N(5))
		if got := r.after(after); len(got) != int(min(n+1-after, uint64(len(r.events)))) {
			t.Fatalf("seed %d: %d events after %d of %d", seed, len(got), after, n+1)
		}
	}
}

func TestALongTextIsCutBehindALine(t *testing.T) {
	line := strings.Repeat("y", 99) + "\n"
	short := []byte(strings.Repeat(line, 10))
	if got := bound(short); !bytes.Equal(got, short) {
		t.Error("a short text is changed")
	}
	got := string(bound([]byte(strings.Repeat(line, maxYAML/50))))
	if len(got) > maxYAML || len(got) < maxYAML-200 {
		t.Errorf("a long text has %d bytes", len(got))
	}
	text, note, _ := strings.Cut(got, "#")
	if len(text)%100 != 0 || !strings.Contains(note, fmt.Sprint(maxYAML/50*100)) {
		t.Errorf("it ends with %q", got[len(got)-150:])
	}
}

// TestALookWaitsUntilItFollows, also a second one meanwhile, and not longer than patience.
func TestALookWaitsUntilItFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, end := cacheOf(t)
		taps, s := newTaps(start), &source{slow: time.Second / 2}
		begin := time.Now()
		for range 2 {
			go taps.poll(t.Context(), keyOf(1), []inspected.Followed{s}, 0)
		}
		synctest.Wait()
		taps.poll(t.Context(), keyOf(1), []inspected.Followed{s}, 0)
		if n := s.send("event"); n != 1 || time.Since(begin) != s.slow {
			t.Errorf("%d follow after %v", n, time.Since(begin))
		}
		never := &source{slow: time.Hour}
		begin = time.Now()
		taps.poll(t.Context(), keyOf(2), []inspected.Followed{never}, 0)
		if waited := time.Since(begin); waited != patience {
			t.Errorf("a look has waited for %v", waited)
		}
		end()
		taps = newTaps(func(func(context.Context)) bool { return false })
		begin = time.Now()
		if seen := taps.poll(t.Context(), keyOf(1), []inspected.Followed{s}, 0); len(seen.Events) != 0 || time.Since(begin) != 0 {
			t.Errorf("a cache that has ended tells %+v after %v", seen, time.Since(begin))
		}
		time.Sleep(2 * lookFor)
	})
}
