// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package watchcache_test

import (
	"context"
	"runtime"
	"testing"
	"weak"

	. "github.com/onsi/gomega"

	"github.com/tarn-dev/tarn/pkg/watchcache"
)

// What every subscriber has read holds no old values: they may be large.
func TestTheWindowHoldsNoValuesThatWereRead(t *testing.T) {
	g := NewWithT(t)
	e := watchcache.New(watchcache.Options[*[1024]byte]{})
	s := e.Subscribe(nil)
	defer s.Close()
	_, err := s.Next(t.Context())
	g.Expect(err).NotTo(HaveOccurred())

	write := func(revision uint64) weak.Pointer[[1024]byte] {
		value := new([1024]byte)
		e.Apply(watchcache.Change[*[1024]byte]{Item: watchcache.Item[*[1024]byte]{Key: "a", Revision: revision, Value: value}})
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
