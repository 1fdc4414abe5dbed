// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package watchcache_test

import (
	"strings"
	"testing"
	"unsafe"

	. "github.com/onsi/gomega"
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
