// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package shard

// maxDeparted bounds how many members that have gone the terms remember. Beyond that all keys have a new term.
const maxDeparted = 1024

// terms say since when this member has had its keys without a break. The numbers are versions of the view.
type terms struct {
	followed bool // Term was called, as a cache does
	replayed bool // a Source was started
	begun    int  // when this member began to take keys; 0 before that
	takes    bool // this member takes keys
	others   map[string]*member
	departed map[string]departed // by the names of Leases
}

// departed is a member that took keys until a version of the view.
type departed struct {
	member *member
	at     int
}

// follow notes which members take keys now.
func (t *terms) follow(v *view) {
	takes, others := v.takes(), map[string]*member{}
	for _, m := range v.members {
		if m.takes() {
			others[m.name] = m
		}
	}
	if takes && (!t.takes || len(t.departed) > maxDeparted) {
		t.begun, t.departed = v.version, map[string]departed{}
	}
	for name, m := range t.others {
		if others[name] == nil && takes {
			t.departed[name] = departed{&member{name: m.name, hash: m.hash}, v.version}
		}
	}
	t.takes, t.others = takes, others
}

// of returns the term of a key that is ours: when the last member had gone that would have had it before us.
func (t *terms) of(v *view, hash uint64) uint64 {
	term := t.begun
	for _, d := range t.departed {
		if d.at > term && beats(d.member, v.self, hash) {
			term = d.at
		}
	}
	return uint64(term)
}

// Term returns the number of this replica's term for a key, or zero. A term begins when the replica becomes the owner, though another
// member may not have given the key up yet. It ends when another member is the owner and the work here has ended. If requests were
// dropped in between, the next term as the owner has a higher number, so a caller may look now and then. A cache whose Tuning.Shard is
// the Ring keeps the namespaces that have a term. A call says that a cache follows the Ring: [Ring.Reconciler] then drops requests.
func (r *Ring) Term(key string) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.terms.followed = true
	return r.termOf(key)
}

// termNow is Term for the Ring itself.
func (r *Ring) termNow(key string) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.termOf(key)
}

// newestTerm returns the number of the newest term of any key.
func (r *Ring) newestTerm() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	newest := r.terms.begun
	for _, d := range r.terms.departed {
		newest = max(newest, d.at)
	}
	return uint64(newest)
}

// termOf is Term under the lock.
func (r *Ring) termOf(key string) uint64 {
	hash, self := hashOf(key), r.view.self
	if self != nil && (r.view.winner(hash) == self || r.view.mayWork(hash) || len(r.view.holds[key]) > 0) {
		return r.terms.of(r.view, hash)
	}
	return 0
}
