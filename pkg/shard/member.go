// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// The Leases of a ring have the label. What a member promises is in annotations of its Lease, and in one write.
const (
	ringLabel         = "shard.tarn.dev/ring"
	joinedAnnotation  = "shard.tarn.dev/joined"  // "true"
	yieldsAnnotation  = "shard.tarn.dev/yields"  // ids of members
	holdsAnnotation   = "shard.tarn.dev/holds"   // hashes of keys, in base 36
	leavingAnnotation = "shard.tarn.dev/leaving" // "true"
)

// promise is what a member says in its Lease. It has stopped its work on each key for which a member in yields beats it, and begins none,
// but for keys in holds, on which it still works. If it is leaving, that is so for all keys. It has joined when it takes keys.
type promise struct {
	joined        bool
	yields, holds string // sorted, with spaces between
	leaving       bool
}

// writeTo puts the promise into a Lease.
func (p promise) writeTo(l *coordinationv1.Lease) {
	if l.Annotations == nil {
		l.Annotations = map[string]string{}
	}
	l.Annotations[yieldsAnnotation], l.Annotations[holdsAnnotation] = p.yields, p.holds
	l.Annotations[joinedAnnotation], l.Annotations[leavingAnnotation] = strconv.FormatBool(p.joined), strconv.FormatBool(p.leaving)
}

// member is one process in the ring, from when it takes its Lease until the Lease says that another has it, or nobody.
type member struct {
	name    string // of the Lease
	id      string // in holderIdentity; "" of a Lease that nobody has
	hash    uint64 // of the name
	lease   *coordinationv1.Lease
	seen    time.Time // when this process saw the Lease change, by its own clock; of a ghost: when the Lease was gone
	ghost   bool      // the Lease disappeared without a word of the member, which may still work
	yields  map[string]bool
	holds   map[string]bool
	joined  bool
	leaving bool
}

func newMember(l *coordinationv1.Lease, now time.Time) *member {
	m := &member{name: l.Name, id: idOf(l), hash: hashOf(l.Name)}
	m.set(l, now)
	return m
}

// set notes what a Lease says, and reports whether the promise has changed.
func (m *member) set(l *coordinationv1.Lease, now time.Time) bool {
	if m.lease != nil && m.lease.ResourceVersion == l.ResourceVersion {
		return false
	}
	m.lease, m.seen = l, now
	yields, holds := setOf(l.Annotations[yieldsAnnotation]), setOf(l.Annotations[holdsAnnotation])
	joined, leaving := l.Annotations[joinedAnnotation] == "true", l.Annotations[leavingAnnotation] == "true"
	changed := !maps.Equal(yields, m.yields) || !maps.Equal(holds, m.holds) || joined != m.joined || leaving != m.leaving
	m.yields, m.holds, m.joined, m.leaving = yields, holds, joined, leaving
	return changed
}

// takes reports whether the member takes keys, as far as others know.
func (m *member) takes() bool { return !m.ghost && !m.leaving }

// overAt is when the member has stopped, if nothing is heard of it until then.
func (m *member) overAt(leaseDuration time.Duration) time.Time {
	if seconds := ptr.Deref(m.lease.Spec.LeaseDurationSeconds, 0); seconds > 0 {
		leaseDuration = time.Duration(seconds) * time.Second
	}
	return m.seen.Add(leaseDuration)
}

func setOf(words string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(words) {
		set[word] = true
	}
	return set
}

func wordsOf(set map[string]bool) string { return strings.Join(slices.Sorted(maps.Keys(set)), " ") }

func formatHash(hash uint64) string { return strconv.FormatUint(hash, 36) }

// newIdentity returns a holderIdentity that no process has had.
func newIdentity(member string) string { return member + "_" + strings.ToLower(rand.Text()) }

// idOf returns the part of the holderIdentity of a Lease by which promises name the member, or "".
func idOf(l *coordinationv1.Lease) string {
	holder := ptr.Deref(l.Spec.HolderIdentity, "")
	return strings.Join(strings.Fields(holder[strings.LastIndexByte(holder, '_')+1:]), "-")
}

// fill makes a Lease one of the ring, with a holder that has renewed it now.
func (o *Options) fill(l *coordinationv1.Lease, holder string, now time.Time) {
	if l.Labels == nil {
		l.Labels = map[string]string{}
	}
	l.Labels[ringLabel] = o.Ring
	if ptr.Deref(l.Spec.HolderIdentity, "") != holder {
		l.Spec.AcquireTime = ptr.To(metav1.NewMicroTime(now))
		l.Spec.LeaseTransitions = ptr.To(ptr.Deref(l.Spec.LeaseTransitions, -1) + 1)
		promise{}.writeTo(l)
	}
	l.Spec.HolderIdentity, l.Spec.RenewTime = ptr.To(holder), ptr.To(metav1.NewMicroTime(now))
	l.Spec.LeaseDurationSeconds = ptr.To(int32((o.LeaseDuration + time.Second - 1) / time.Second))
}

// checkRing returns an error if a Lease with the name of ours belongs to something else.
func (o *Options) checkRing(l *coordinationv1.Lease) error {
	if ring := l.Labels[ringLabel]; ring != o.Ring {
		return fmt.Errorf("lease %s/%s is not one of ring %s: its label %s is %q", l.Namespace, l.Name, o.Ring, ringLabel, ring)
	}
	return nil
}
