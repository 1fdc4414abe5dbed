// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"testing"

	. "github.com/onsi/gomega"
)

// different is a handler that is told of differences.
type different struct {
	recording
	gate *gate
	told []map[string]bool // whether a and b are there
}

func (d *different) OnUpdate(before, after any) {
	d.recording.OnUpdate(before, after)
	d.gate.pass()
}

func (d *different) OnDifference(_ uint64, _ bool, has func(namespace, name string) bool) {
	d.told = append(d.told, map[string]bool{"a": has("ns", "a"), "b": has("ns", "b")})
}

// TestAHandlerIsToldThatEventsWereMerged has an object come and go while the handler is busy.
func TestAHandlerIsToldThatEventsWereMerged(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		if _, ours := r.informer.(*Informer); !ours {
			return
		}
		h := &different{gate: r.gate()}
		r.handle(h)
		r.server.put(configMap("ns/a", "1"))
		r.start()
		r.Expect(h.told).To(Equal([]map[string]bool{{"a": true, "b": false}}), "also after the first list")

		r.server.put(configMap("ns/a", "2")) // the handler is told of it, and waits
		r.settle()
		r.server.put(configMap("ns/b", "1"))
		r.server.remove("ns/b")
		r.relist(func() { r.server.remove("ns/a") })
		h.gate.open()
		r.settle()
		r.Expect(h.told).To(HaveLen(2))
		r.Expect(h.told[1]).To(Equal(map[string]bool{"a": false, "b": false}))
		NewWithT(t).Expect(h.take()).NotTo(ContainElement(ContainSubstring("ns/b")), "that is why")
	})
}
