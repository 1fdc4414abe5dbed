// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package watchcache_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

// BenchmarkHistory has 150,000 objects, and 10,000 events behind which to look.
func BenchmarkHistory(b *testing.B) {
	e := watchcache.New[thing, string](watchcache.Options[thing]{Values: words, History: &history{MinAge: time.Hour, MaxEvents: 10_000}})
	e.AddIndex("words")
	key := func(i int) string { return fmt.Sprintf("namespace-%05d/pod-%06d", i/15, i) }
	items := make([]item, 150_000)
	for i := range items {
		items[i] = item{Key: key(i), Revision: 1, Value: thing{fmt.Sprint("node-", i%5000)}}
	}
	e.Replace(items, 1)
	revision := uint64(1)
	write := func() {
		revision++
		e.Apply(put(key(int(revision*7919)%len(items)), revision, fmt.Sprint("node-", revision%5000)))
	}
	for range 20_000 {
		write()
	}
	b.Run("Apply", func(b *testing.B) {
		for b.Loop() {
			write()
		}
	})
	for _, back := range []uint64{10, 1000, 9999} {
		b.Run(fmt.Sprint("At/back=", back), func(b *testing.B) {
			for b.Loop() {
				write() // so that the one before is another
				if _, ok := e.At(revision - back); !ok {
					b.Fatal("the history does not reach back")
				}
			}
		})
	}
	b.Run("At/again", func(b *testing.B) {
		for b.Loop() {
			e.At(revision - 9000)
		}
	})
	b.Run("Position", func(b *testing.B) {
		for b.Loop() {
			e.Position(revision - 5000)
		}
	})
	s := e.Snapshot()
	b.Run("Rank", func(b *testing.B) {
		for b.Loop() {
			s.Rank("namespace-05000/")
		}
	})
	b.Run("Count", func(b *testing.B) {
		for b.Loop() {
			s.Count("namespace-05000/", "namespace-05000/pod-075003")
		}
	})
}

// BenchmarkReads has 10,000 objects. Of "after a write" each round is a write and a read.
func BenchmarkReads(b *testing.B) {
	e := newEngine(0)
	items := make([]item, 10_000)
	for i := range items {
		items[i] = item{Key: fmt.Sprintf("namespace/pod-%06d", i), Revision: 1}
	}
	e.Replace(items, 1)
	reads := map[string]func(){
		"Snapshot": func() { e.Snapshot() },
		"Get":      func() { e.Get("namespace/pod-005000") },
		"Len":      func() { e.Len() },
	}
	for name, read := range reads {
		for _, snapshot := range []bool{false, true} {
			e.Bookmark(e.Revision() + 1) // there is no snapshot behind it
			if snapshot {
				e.Snapshot()
			}
			b.Run(fmt.Sprint(name, "/snapshot=", snapshot), func(b *testing.B) {
				for b.Loop() {
					read()
				}
			})
			b.Run(fmt.Sprint(name, "/parallel/snapshot=", snapshot), func(b *testing.B) {
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						read()
					}
				})
			})
		}
		b.Run(name+"/after a write", func(b *testing.B) {
			for revision := e.Revision() + 1; b.Loop(); revision++ {
				e.Apply(put("namespace/pod-005000", revision, ""))
				read()
			}
		})
	}
}
