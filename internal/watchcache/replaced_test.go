// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package watchcache_test

import (
	"fmt"
	"runtime"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

// TestObjectsOfAListAreFreeWhenTheyAreReplaced writes each object anew that came by a list, or was
// rewritten, in a store that nobody lists or watches: the old ones must not stay.
func TestObjectsOfAListAreFreeWhenTheyAreReplaced(t *testing.T) {
	type value = *[1024]byte
	const objects = 5000
	inUse := func() int {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	object := func(n int, revision uint64) watchcache.Item[value] {
		return watchcache.Item[value]{Key: fmt.Sprintf("%06d", n), Revision: revision, Value: new([1024]byte)}
	}
	for _, rewritten := range []bool{false, true} {
		t.Run(fmt.Sprintf("rewritten %t", rewritten), func(t *testing.T) {
			g := NewWithT(t)
			e := watchcache.New[value, struct{}](watchcache.Options[value]{})
			items := make([]watchcache.Item[value], objects)
			for n := range items { // in the order of their keys, as a server lists them
				items[n] = object(n, uint64(n+1))
			}
			e.Replace(items, objects)
			clear(items)
			if rewritten {
				e.Rewrite(func(watchcache.Item[value]) value { return new([1024]byte) })
			}
			before := inUse()
			for n := range objects {
				e.Apply(watchcache.Change[value, struct{}]{Item: object(n, e.Revision()+1)})
			}
			g.Expect(inUse() - before).To(BeNumerically("<", objects*1024/20))
			g.Expect(e.Len()).To(Equal(objects))
			g.Expect(e.Check()).To(Succeed())
			runtime.KeepAlive(items)
		})
	}
}
