// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package watchcache_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"weak"

	. "github.com/onsi/gomega"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

// Events that every cursor has read hold no old values: they may be large.
func TestTheWindowHoldsNoValuesThatWereRead(t *testing.T) {
	g := NewWithT(t)
	e := watchcache.New[*[1024]byte, struct{}](watchcache.Options[*[1024]byte]{})
	s := e.MergingCursor(nil)
	defer s.Close()
	_, err := s.Next(t.Context())
	g.Expect(err).NotTo(HaveOccurred())

	write := func(revision uint64) weak.Pointer[[1024]byte] {
		value := new([1024]byte)
		e.Apply(watchcache.Change[*[1024]byte, struct{}]{Item: watchcache.Item[*[1024]byte]{Key: "a", Revision: revision, Value: value}})
		return weak.Make(value)
	}
	old := write(1)
	write(2)
	runtime.GC()
	g.Expect(old.Value()).NotTo(BeNil(), "it is the previous state of an event that was not read")
	_, err = s.Next(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.Next(ctx)
	g.Expect(err).To(HaveOccurred())
	runtime.GC()
	g.Expect(old.Value()).To(BeNil())
	runtime.KeepAlive(e)
}

// Events are kept for those alone who were not given them: the room for a burst is given
// back, and who subscribes later begins with the state, as ever.
func TestTheWindowHoldsNoEventsThatWereGiven(t *testing.T) {
	g := NewWithT(t)
	e := newEngine(1000)
	room := func() int { length, _ := e.Ring(); return length }
	write := func(n int) {
		for range n {
			revision := e.Revision() + 1
			e.Apply(put(fmt.Sprint(revision%7), revision, ""))
		}
	}
	read := func(s *cursor, n int) {
		for n > 0 {
			n -= len(next(g, s).Events)
		}
		g.Expect(n).To(BeZero())
	}
	write(100)
	g.Expect(room()).To(BeZero(), "nobody reads")

	quick, slow := e.MergingCursor(nil), e.MergingCursor(nil)
	g.Expect(next(g, quick).Diff).NotTo(BeNil())
	g.Expect(next(g, slow).Diff).NotTo(BeNil())
	for range 10 {
		write(1)
		read(quick, 1)
		read(slow, 1)
		g.Expect(room()).To(Equal(4))
	}
	write(500)
	read(quick, 500)
	g.Expect(room()).To(Equal(512), "the slow one reads them all")
	late := e.MergingCursor(nil)
	g.Expect(next(g, late).Diff.To.Position()).To(Equal(e.Snapshot().Position()))
	write(10)
	read(late, 10)
	g.Expect(room()).To(Equal(512))
	read(slow, 510)
	read(quick, 10)
	g.Expect(room()).To(Equal(4))

	write(20)
	quick.Close()
	late.Close()
	slow.Close()
	g.Expect(room()).To(Equal(4), "those who were to read it are gone")
	write(1001)
	g.Expect(e.Check()).To(Succeed())
	g.Expect(room()).To(Equal(4))
}
