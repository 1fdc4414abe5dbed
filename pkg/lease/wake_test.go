// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"testing"

	. "github.com/onsi/gomega"
)

// TestWhatWakesARequest plays what a handler hears around the first read of a request.
func TestWhatWakesARequest(t *testing.T) {
	var (
		there   = func(version string) event { return event{version: version, initial: true} }
		changed = func(version string) event { return event{version: version} }
		deleted = func(version string) event { return event{version: version, deleted: true} }
		name    = refKey{name: "one"}
		list    = refKey{}
	)
	for _, c := range []struct {
		what    string
		key     refKey
		before  []event // the read is complete
		version string  // what it returns; empty if nothing is found
		wakes   bool
		after   event
		then    bool // whether it wakes
	}{
		{"what was there is read", name, []event{there("3")}, "3", false, changed("4"), true},
		{"the read is newer than the event", name, []event{there("3"), changed("4")}, "4", false, changed("4"), false},
		{"a change before the read is noted, and after it was taken", name, []event{there("3"), changed("4")}, "3", true, changed("4"), true},
		{"the event comes after the read", name, nil, "3", false, there("3"), false},
		{"another one comes after the read", name, nil, "3", false, there("4"), true},
		{"a deletion before the read is noted", name, []event{there("3"), deleted("4")}, "3", true, deleted("4"), true},
		{"it came and went between two states", name, nil, "3", false, event{deleted: true}, true},
		{"it came and went before the read is noted", name, []event{{deleted: true}}, "3", true, there("4"), true},
		{"it was in no state and was not read", name, []event{{deleted: true}}, "", false, event{deleted: true}, false},
		{"a list is newer than the difference", list, []event{there("5")}, "5", false, there("5"), false},
		{"a list is older than the difference", list, []event{there("6")}, "5", true, there("6"), true},
		{"a deletion that the read has seen", name, []event{there("3"), deleted("4")}, "", false, changed("5"), true},
		{"it is created before the read is noted", name, []event{changed("4")}, "", true, changed("4"), true},
		{"it is created after the read", name, nil, "", false, there("4"), true},
		{"it goes back, as after a restore of etcd", name, nil, "9", false, changed("4"), true},
		{"a list has what was there", list, []event{there("3"), there("2")}, "5", false, there("4"), false},
		{"a list lacks one that was there at first", list, []event{there("7"), there("2")}, "5", true, there("7"), true},
		{"a change before the list is noted", list, []event{there("2"), changed("6"), there("3")}, "5", true, changed("6"), true},
		{"a deletion has the version of the object", list, []event{there("2")}, "5", false, deleted("2"), true},
		{"a deletion before the list is noted", list, []event{there("2"), deleted("2")}, "5", true, changed("4"), true},
	} {
		t.Run(c.what, func(t *testing.T) {
			g, u := NewWithT(t), &use{}
			for _, e := range c.before {
				g.Expect(u.hear(c.key, e)).To(BeFalse(), "the read is to come")
			}
			g.Expect(u.saw(c.key, c.version, c.version == "")).To(Equal(c.wakes))
			g.Expect(u.hear(c.key, c.after)).To(Equal(c.then))
		})
	}
	failed := &use{}
	failed.saw(name, "", false)
	NewWithT(t).Expect(failed.hear(name, there("1"))).To(BeTrue(), "a read that has failed is woken by whatever is there")
	NewWithT(t).Expect(failed.hear(name, event{deleted: true})).To(BeTrue(), "and when the kind has synced without it")
}
