// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package watchcache_test

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"

	. "github.com/onsi/gomega"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

// An index that an update does not touch keeps the string that it was given. If the
// state took the new one, there would be two for each object and index.
func TestAKeyIsOneStringHoweverOftenItsObjectIsWritten(t *testing.T) {
	g := NewWithT(t)
	e := newEngine(0)
	e.AddIndex("words")
	key := strings.Clone("key")
	e.Apply(put(key, 1, "x"))
	e.Apply(put(strings.Clone("key"), 2, "x"), put(strings.Clone("key"), 3, "x y"))
	held := []string{}
	for item := range e.Snapshot().Items("", "") {
		held = append(held, item.Key)
	}
	for _, word := range []string{"x", "y"} {
		for key := range e.Snapshot().Index("words").Keys(word, "") {
			held = append(held, key)
		}
	}
	g.Expect(held).To(Equal([]string{"key", "key", "key"}))
	for _, h := range held {
		g.Expect(unsafe.StringData(h)).To(BeIdenticalTo(unsafe.StringData(key)))
	}
}

// TestItemsAreCountedInsteadOfCompared walks more objects than have their keys looked at, with
// others before and behind them, and from every place between them.
func TestItemsAreCountedInsteadOfCompared(t *testing.T) {
	g := NewWithT(t)
	e := newEngine(0)
	var keys []string
	for _, prefix := range []string{"a/", "b/", "c/"} {
		for i := range 600 {
			key := fmt.Sprintf("%s%03d", prefix, i)
			e.Apply(put(key, uint64(len(keys)+1), "x"))
			keys = append(keys, key)
		}
	}
	state := e.Snapshot()
	walk := func(prefix, after string) (walked []string) {
		if after != "" {
			after = watchcache.After(after)
		}
		for item := range state.Items(prefix, after) {
			walked = append(walked, item.Key)
		}
		return walked
	}
	g.Expect(walk("", "")).To(Equal(keys))
	g.Expect(walk("b/", "")).To(Equal(keys[600:1200]))
	for i := 600; i < 1200; i += 7 {
		g.Expect(walk("b/", keys[i])).To(HaveExactElements(keys[i+1:1200]), "after %s", keys[i])
		g.Expect(walk("b/", keys[i]+"!")).To(HaveExactElements(keys[i+1:1200]), "after a key between")
	}
	g.Expect(walk("c/", keys[3])).To(Equal(keys[1200:]))
	g.Expect(walk("d/", "")).To(BeEmpty())
	stopped := 0
	for range state.Items("b/", "") {
		if stopped++; stopped == 300 {
			break
		}
	}
	g.Expect(stopped).To(Equal(300))
}
