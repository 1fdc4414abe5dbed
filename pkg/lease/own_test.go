// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"fmt"
	"strconv"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tarn-dev/tarn/internal/note"
)

// ofUID returns a Secret with the label of the list.
func ofUID(uid types.UID, version string) *corev1.Secret {
	s := secret("a", version, "web")
	s.UID = uid
	return s
}

// writing is a reconcile that writes the Secret a.
type writing struct {
	ownWrites[string]
	l *listener[string]
}

// wrote has the client tell of a write that has replaced a version.
func (w writing) wrote(uid types.UID, replaced, version string) {
	s := ofUID(uid, version)
	revision, _ := strconv.ParseUint(version, 10, 64)
	w.NoteWrite(note.Write{
		Kind: corev1.SchemeGroupVersion.WithKind("Secret"), Key: inShop("a"), UID: uid, Revision: revision, Replaced: replaced,
		Metadata: &metav1.PartialObjectMetadata{ObjectMeta: s.ObjectMeta},
	})
}

// changed has the informer tell of a change.
func (w writing) changed(before, after string) { w.l.OnUpdate(ofUID("u", before), ofUID("u", after)) }

// noNoter is a cache that notes nothing.
type noNoter struct{}

// NoteWrite implements note.Noter.
func (noNoter) NoteWrite(note.Write) {}

func TestWhichWritesAreOwn(t *testing.T) {
	succeed := func(w writing) { w.of.settle(w.t, true) }
	for _, c := range []struct {
		what string
		do   func(w writing)
		name []string // what wakes a request that has read the Secret at version 3
		list []string // and one that has read a list at version 3
	}{
		{"the event comes first", func(w writing) { w.WillWrite(); w.changed("3", "4"); w.wrote("u", "3", "4"); succeed(w) }, nil, nil},
		{"the response comes first", func(w writing) { w.WillWrite(); w.wrote("u", "3", "4"); w.changed("3", "4"); succeed(w) }, nil, nil},
		{"the reconcile ends first", func(w writing) { w.WillWrite(); w.wrote("u", "3", "4"); succeed(w); w.changed("3", "4") }, nil, nil},
		{"two writes", func(w writing) {
			w.WillWrite()
			w.wrote("u", "3", "4")
			w.WillWrite()
			w.wrote("u", "4", "5")
			w.changed("3", "4")
			succeed(w)
			w.changed("4", "5")
		}, nil, nil},
		{"two writes whose first event is skipped", func(w writing) {
			w.WillWrite()
			w.wrote("u", "3", "4")
			w.wrote("u", "4", "5")
			succeed(w)
			w.changed("3", "5")
		}, nil, nil},
		{"the event comes twice", func(w writing) {
			w.WillWrite()
			w.wrote("u", "3", "4")
			succeed(w)
			w.changed("3", "4")
			w.changed("4", "4")
		}, nil, []string{"Modified a"}},
		{"the version before comes back", func(w writing) {
			w.WillWrite()
			w.wrote("u", "3", "4")
			succeed(w)
			w.changed("3", "4")
			w.changed("4", "3")
		}, []string{"Modified a"}, []string{"Modified a"}},
		{"another writes after it", func(w writing) {
			w.WillWrite()
			w.wrote("u", "3", "4")
			w.changed("3", "4")
			w.changed("4", "5")
			succeed(w)
		}, []string{"Modified a"}, []string{"Modified a"}},
		{"another writes before it, and that is not read", func(w writing) {
			w.WillWrite()
			w.wrote("u", "4", "5")
			succeed(w)
			w.changed("3", "5") // the event of 4 was skipped
		}, []string{"Modified a"}, []string{"Modified a"}},
		{"a patch without a version", func(w writing) { w.WillWrite(); w.wrote("u", "", "4"); w.changed("3", "4"); succeed(w) }, []string{"Modified a"}, []string{"Modified a"}},
		{"a write that changes nothing", func(w writing) {
			w.WillWrite()
			w.wrote("u", "3", "3")
			succeed(w)
			w.changed("2", "3")
		}, nil, []string{"Modified a"}},
		{"another object has the version", func(w writing) {
			w.WillWrite()
			w.wrote("v", "3", "4")
			w.changed("3", "4")
			succeed(w)
		}, []string{"Modified a"}, []string{"Modified a"}},
		{"another object was in its place", func(w writing) {
			w.WillWrite()
			w.wrote("v", note.Nothing, "4")
			w.l.OnUpdate(ofUID("u", "3"), ofUID("v", "4"))
			succeed(w)
		}, []string{"Modified a"}, []string{"Modified a"}},
		{"the reconcile fails", func(w writing) {
			w.WillWrite()
			w.wrote("u", "3", "4")
			w.changed("3", "4")
			w.wrote("u", "4", "5")
			w.of.settle(w.t, false)
			w.changed("4", "5")
		}, []string{"Modified a"}, []string{"Modified a"}},
		{"the reconcile has ended", func(w writing) {
			succeed(w)
			w.WillWrite()
			w.changed("3", "4")
			w.wrote("u", "3", "4")
		}, []string{"Modified a"}, []string{"Modified a"}},
		{"it is deleted at the version", func(w writing) {
			w.WillWrite()
			w.wrote("u", "3", "4")
			succeed(w)
			w.l.OnDelete(ofUID("u", "4"))
		}, []string{"Deleted a"}, []string{"Deleted a"}},
		{"the state skips the event", func(w writing) {
			w.WillWrite()
			w.wrote("u", "3", "4")
			succeed(w)
			w.l.OnDifference(4, false, func(string, string) bool { return true })
			w.changed("3", "4")
		}, []string{"Modified a"}, []string{"Listed ", "Modified a"}},
		{"the state is older", func(w writing) {
			w.WillWrite()
			w.wrote("u", "3", "4")
			succeed(w)
			w.l.OnDifference(3, false, func(string, string) bool { return false })
			w.changed("3", "4")
		}, nil, nil},
		{"the state is that of a restored server", func(w writing) {
			w.WillWrite()
			w.wrote("u", "3", "4")
			succeed(w)
			w.l.OnDifference(3, true, func(string, string) bool { return false })
		}, []string{"Deleted a"}, nil},
		{"more events than are kept", func(w writing) {
			w.WillWrite()
			for i := range 2 * maxOwn {
				w.changed(fmt.Sprint(9+i), fmt.Sprint(10+i))
			}
		}, []string{"Modified a"}, []string{"Modified a"}},
	} {
		for name, want := range map[string][]string{"a": c.name, "": c.list} {
			t.Run(c.what+" "+name, func(t *testing.T) {
				g, u := NewWithT(t), seen("3")
				u.own = &own{}
				ref := referTo(name, u)
				ref.scope.namespace = "shop"
				r, l := referring(t, ref)
				r.noter, r.requests = noNoter{}, map[string]map[*reference[string]]struct{}{"r": {ref: {}}}
				c.do(writing{ownWrites[string]{r, readOf(ref)}, l})
				g.Expect(r.why("r")).To(Equal(want))
				g.Expect(r.queue.Len()).To(Equal(min(1, len(want)))) // the same request is there once
				g.Expect(len(u.own.held)).To(BeNumerically("<=", maxOwn))
			})
		}
	}
}

// TestOwnWritesAreBounded has a reconcile write more than is kept.
func TestOwnWritesAreBounded(t *testing.T) {
	g, u := NewWithT(t), seen("3")
	u.own = &own{}
	ref := referTo("a", u)
	r, _ := referring(t, ref)
	r.noter, r.requests = noNoter{}, map[string]map[*reference[string]]struct{}{"r": {ref: {}}}
	w := writing{ownWrites[string]{r, readOf(ref)}, nil}
	for i := range 2 * maxOwn {
		w.wrote("u", fmt.Sprint(3+i), fmt.Sprint(4+i))
	}
	g.Expect(u.own.written).To(HaveLen(maxOwn))
	g.Expect(u.own.has(fmt.Sprint(3 + 2*maxOwn))).To(BeTrue())
}

// TestACreationIsOwn of what was read as absent, and what happens to it later is not.
func TestACreationIsOwn(t *testing.T) {
	g, u := NewWithT(t), &use{read: true, absent: true, own: &own{}}
	ref := referTo("a", u)
	r, l := referring(t, ref)
	r.noter, r.requests = noNoter{}, map[string]map[*reference[string]]struct{}{"r": {ref: {}}}
	w := writing{ownWrites[string]{r, readOf(ref)}, l}
	w.WillWrite()
	l.OnDifference(3, false, func(string, string) bool { return false }) // the first state comes late
	w.wrote("u", note.Nothing, "4")
	r.saw(w.t, ref, "4", nil) // no other version than it has written
	r.settle(w.t, true)
	l.OnAdd(ofUID("u", "4"), false)
	g.Expect(r.why("r")).To(BeEmpty())
	l.OnDelete(ofUID("u", "5"))
	g.Expect(r.why("r")).To(Equal([]string{"Deleted a"}))
}
