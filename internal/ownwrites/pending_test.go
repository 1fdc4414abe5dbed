// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package ownwrites_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/tarn-dev/tarn/internal/ownwrites"
)

func TestPendingHasWhatTheWatchHasNotShown(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.Expect((*ownwrites.Overlay[thing])(nil).Pending(9)).To(BeEmpty())
		f.watch("b", 2, "u")
		for n, key := range []string{"c", "a", "b"} {
			f.overlay.Note(f.shown(key, uint64(10+n), "u"))
		}
		keys := func(limit int) (keys []string) {
			for _, p := range f.overlay.Pending(limit) {
				f.Expect(p.Outcome).To(Equal(ownwrites.Shown))
				f.Expect(p.Noted).NotTo(BeZero())
				keys = append(keys, p.Key)
			}
			return keys
		}
		f.Expect(keys(9)).To(Equal([]string{"a", "b", "c"}))
		f.Expect(keys(2)).To(Equal([]string{"a", "b"}))
		at := func(key string) bool {
			p, ok := f.overlay.PendingAt(key)
			f.Expect(p.Key == key).To(Equal(ok))
			return ok
		}
		f.Expect(at("a")).To(BeTrue())
		f.Expect(at("d")).To(BeFalse())
		f.watch("a", 11, "u") // also before the overlay is swept
		f.Expect(keys(9)).To(Equal([]string{"b"}))
		f.Expect(at("a")).To(BeFalse())
	})
}
