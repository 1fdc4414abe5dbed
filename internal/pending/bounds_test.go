// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tarn-dev/tarn/internal/note"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

// bare is an object that has a UID alone.
type bare struct{ uid string }

// bareWrites is a room for pending writes whose server has no resourceVersion.
func bareWrites(e *watchcache.Engine[bare, struct{}], b *Budget, ask func(context.Context, Target) (Answer[bare], error)) *Writes[bare] {
	return New(Options[bare]{
		State: e.Snapshot, Wait: e.WaitUntilFreshAfter, Ask: ask,
		UID: func(v bare) types.UID { return types.UID(v.uid) }, Size: func(bare) int { return 10 },
		Budget: b, Ended: func(Ending) {},
	})
}

// A prefix is noted although other informers have taken the room for keys.
func TestAPrefixIsKeptWithoutRoomForKeys(t *testing.T) {
	e := watchcache.New[bare, struct{}](watchcache.Options[bare]{})
	e.Replace(nil, 100)
	b := NewBudget(1)
	b.used.Store(b.all) // others have taken it
	w := bareWrites(e, b, nil)
	defer w.Close()
	w.NotePrefix("ns/", 0)
}

// A server may answer that it deletes an object, and keep it.
func TestADeletionEndsByItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := watchcache.New[bare, struct{}](watchcache.Options[bare]{})
		e.Replace([]watchcache.Item[bare]{{Key: "a", Revision: 90, Value: bare{"A"}}}, 100)
		w := bareWrites(e, NewBudget(0), nil)
		defer w.Close()
		w.Note(Entry[bare]{Key: "a", Outcome: note.Gone, UID: "A", Revision: 90})
		for n := range 20 {
			time.Sleep(time.Minute)
			e.Bookmark(uint64(200 + n))
		}
		if n, _ := w.Size(); n != 0 {
			v, _ := w.Read(t.Context(), Target{Key: "a"})
			_, there, _ := v.Find("a")
			t.Errorf("after 20 minutes: %d, there %v", n, there)
		}
	})
}

// A list without a resourceVersion does not order what is known of a key.
func TestTheWatchIsBelievedWithoutRevisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := watchcache.New[bare, struct{}](watchcache.Options[bare]{})
		e.Replace(nil, 100)
		asked := 0
		w := bareWrites(e, NewBudget(0), func(context.Context, Target) (Answer[bare], error) { asked++; return Answer[bare]{}, ErrNoRevision })
		defer w.Close()
		w.Note(Entry[bare]{Key: "a", Outcome: note.Ambiguous, Revision: 110})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := w.Read(ctx, Target{Key: "a"}); err != nil || asked != 1 {
			t.Errorf("asked %d times: %v", asked, err)
		}
		synctest.Wait()
	})
}

func TestAnAmbiguousWriteIsCountedOnce(t *testing.T) {
	e := watchcache.New[bare, struct{}](watchcache.Options[bare]{})
	e.Replace(nil, 100)
	w := bareWrites(e, NewBudget(0), nil)
	defer w.Close()
	mk := func(u string) func() (Made[bare], error) {
		return func() (Made[bare], error) { return Made[bare]{Value: bare{u}, Held: true}, nil }
	}
	w.Note(Entry[bare]{Key: "a", UID: "A", Revision: 110, Make: mk("A"), Bytes: 50})
	_, _ = w.Read(t.Context(), Target{Key: "a"})
	w.Note(Entry[bare]{Key: "a", UID: "A", Revision: 111, Make: mk("A"), Bytes: 50})
	w.Note(Entry[bare]{Key: "a", Outcome: note.Ambiguous})
	_, before := w.Size()
	for range 1000 {
		w.Note(Entry[bare]{Key: "a", Outcome: note.Ambiguous})
	}
	_, after := w.Size()
	if before != after {
		t.Errorf("size %d, then %d", before, after)
	}
}
