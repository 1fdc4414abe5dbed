// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package query_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tarn-dev/tarn/internal/note"
	"github.com/tarn-dev/tarn/internal/pending"
	"github.com/tarn-dev/tarn/internal/query"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

// TestWhatLiesOverAgreesWithAStateThatHasIt asks random queries of random states with random writes over them, page by
// page, and the same of a state to which the writes were applied. A page is an error if it comes to an object whose
// newest version the cache cannot hold.
func TestWhatLiesOverAgreesWithAStateThatHasIt(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	g := NewWithT(t)
	errLost, failed := errors.New("it cannot be held"), 0
	for n := 0; n < 15 || failed == 0 && n < 1000; n++ { // nearly always 15 are enough
		items := numbered(random.IntN(400))
		f, applied := newFixture(t, items...), newFixture(t, items...)
		overlay := pending.New(pending.Options[thing]{
			State: f.engine.Snapshot, Wait: f.engine.WaitUntilFreshAfter, Budget: pending.NewBudget(0),
			UID:   func(thing) types.UID { return "" },
			Size:  func(thing) int { return 0 },
			Ended: func(pending.Ending) {},
		})
		var keys []string
		written := map[string]bool{} // true for lost objects
		for n := range random.IntN(40) {
			revision, key := uint64(1000+n), fmt.Sprintf("%c/%04d", 'a'+random.IntN(4), random.IntN(500))
			if len(keys) > 0 && random.IntN(2) == 0 {
				key = keys[random.IntN(len(keys))] // once more
			}
			keys = append(keys, key)
			if written[key] {
				continue
			} else if written[key] = random.IntN(4) == 0; written[key] {
				overlay.Note(made(key, revision, thing{}, errLost))
				continue
			}
			value := numbered(random.IntN(40) + 1)
			change := watchcache.Change[thing, struct{}]{Item: item{Key: key, Revision: revision, Value: value[len(value)-1].Value}}
			entry := made(key, revision, change.Item.Value, nil)
			if change.Deleted = random.IntN(3) == 0; change.Deleted {
				entry = pending.Entry[thing]{Key: key, Outcome: note.Hidden, Revision: revision}
			}
			applied.engine.Apply(change)
			overlay.Note(entry)
			_, err := overlay.Read(context.Background(), pending.Target{Key: key}) // what was read is remembered
			g.Expect(err).NotTo(HaveOccurred())
		}
		own, err := overlay.Read(context.Background(), pending.Target{All: true})
		state := own.Base()
		g.Expect(err).NotTo(HaveOccurred())
		for range 20 {
			q := randomQuery(t, random, f)
			plain := *q
			q.Own = &own
			for {
				want, err := query.Find(applied.engine.Snapshot(), &plain)
				g.Expect(err).NotTo(HaveOccurred())
				got, err := query.Find(state, q)
				first := firstLost(written, q)
				before := slices.IndexFunc(append(slices.Clone(want.Items), item{Key: "~"}), func(i item) bool { return i.Key >= first })
				if first != "" && (q.Limit == 0 || before < q.Limit) {
					g.Expect(err).To(MatchError(errLost), "seed %d", seed)
					failed++
					break
				}
				g.Expect(err).NotTo(HaveOccurred(), "seed %d", seed)
				g.Expect(keysOf(got.Items)).To(Equal(keysOf(want.Items)), "seed %d", seed)
				if len(want.Items) > 0 {
					g.Expect(got.Items).To(Equal(want.Items))
				}
				g.Expect(got.More).To(Equal(want.More || first != ""))
				if got.Rest != want.Rest { // what is lost is not counted
					g.Expect(got.Rest).To(And(BeNumerically("<", want.Rest), BeNumerically(">=", want.Rest-lostIn(written))))
				}
				if !got.More {
					break
				}
				q.From = watchcache.After(got.Items[len(got.Items)-1].Key)
				plain.From = q.From
			}
		}
		overlay.Close()
	}
	g.Expect(failed).To(BeNumerically(">", 0), "seed %d", seed)
}

// Each list fails that comes to the key of an object that is lost, whatever it selects.
func TestAListFailsWhereAnObjectIsLost(t *testing.T) {
	g, f, errLost := NewWithT(t), newFixture(t), errors.New("it cannot be held")
	overlay := pending.New(pending.Options[thing]{
		State: f.engine.Snapshot, Wait: f.engine.WaitUntilFreshAfter, Budget: pending.NewBudget(-1),
		UID:   func(thing) types.UID { return "" },
		Size:  func(thing) int { return 100 },
		Ended: func(pending.Ending) {},
	})
	defer overlay.Close()
	value := numbered(1)[0].Value
	for _, e := range []pending.Entry[thing]{
		made("b/1", 1000, value, nil),
		made("b/1", 1001, thing{}, errLost),
		made("a/1", 1002, value, nil), // the room is for one
	} {
		overlay.Note(e)
		_, err := overlay.Read(context.Background(), pending.Target{Key: e.Key})
		g.Expect(err).NotTo(HaveOccurred())
	}
	own, err := overlay.Read(context.Background(), pending.Target{All: true})
	state := own.Base()
	g.Expect(err).NotTo(HaveOccurred())
	find := func(change func(q *query.Query[thing])) error {
		q := f.query(t, "none=such", "")
		q.Own = &own
		change(q)
		_, err := query.Find(state, q)
		return err
	}
	g.Expect(find(func(*query.Query[thing]) {})).To(MatchError(errLost))
	g.Expect(find(func(q *query.Query[thing]) { q.Prefix = "b/" })).To(MatchError(errLost))
	g.Expect(find(func(q *query.Query[thing]) { q.Key = "b/1" })).To(MatchError(errLost))
	g.Expect(find(func(q *query.Query[thing]) { q.Prefix = "a/" })).To(Succeed())
	g.Expect(find(func(q *query.Query[thing]) { q.Key = "a/1" })).To(Succeed())
	g.Expect(find(func(q *query.Query[thing]) { q.Selects, q.Limit, q.MayBeMore = nil, 1, true })).To(Succeed(), "the first page ends before")
}

// made is an object that was written, or why the cache cannot hold it.
func made(key string, revision uint64, value thing, lost error) pending.Entry[thing] {
	return pending.Entry[thing]{Key: key, Revision: revision, Bytes: 100, Make: func() (pending.Made[thing], error) {
		return pending.Made[thing]{Value: value, Held: lost == nil, Lost: lost}, nil
	}}
}

// firstLost returns the first key that q covers whose object is lost, empty for none.
func firstLost(written map[string]bool, q *query.Query[thing]) (first string) {
	for key, lost := range written {
		covered := strings.HasPrefix(key, q.Prefix) && key >= q.From && (q.Key == "" || q.Key == key) && !q.Fields.Nothing()
		if lost && covered && (first == "" || key < first) {
			first = key
		}
	}
	return first
}

func lostIn(written map[string]bool) (lost int) {
	for _, is := range written {
		if is {
			lost++
		}
	}
	return lost
}

func randomQuery(t *testing.T, random *rand.Rand, f *fixture) *query.Query[thing] {
	byLabel := []string{"", "", "two=1", "ten=3", "ten in (1,2)", "two!=1"}[random.IntN(6)]
	byField := []string{"", "", "node=n3", "metadata.namespace=b"}[random.IntN(4)]
	q := f.query(t, byLabel, byField)
	q.Prefix = []string{"", "", "a/", "d/"}[random.IntN(4)]
	q.Limit = []int{0, 1, 3, 50}[random.IntN(4)]
	if random.IntN(8) == 0 {
		q.Key = fmt.Sprintf("%c/%04d", 'a'+random.IntN(4), random.IntN(500))
		q.Prefix = ""
	}
	return q
}
