// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import "fmt"

// starter is what needs entries: a read, or the program, which knows what it starts. It belongs to one call of GetAll.
type starter struct {
	callSite func() string // of the read; nil of the program
	site     string        // what it has returned
	made     []*MapEntry   // that were made for the read
}

// started notes that an entry was made whose informer begins. Nobody has the entry yet.
func (s *starter) started(e *MapEntry) {
	if s.callSite == nil {
		return
	}
	if len(s.made) == 0 {
		s.site = s.callSite()
	}
	e.life.startedBy = s.site
	s.made = append(s.made, e)
}

// tell counts the informers that a read has started, and logs them: in one line, even if there are thousands. No lock is held.
func (s *starter) tell(key Key, o *Shared) {
	n := len(s.made)
	o.Metrics.Reads().Started(key.GroupVersionKind, n)
	kind := s.made[0].String()
	if n > 1 {
		kind = fmt.Sprintf("%s in %d namespaces", key, n)
	}
	o.Logger.Info("A read has started an informer, of a whole kind: call GetInformer before, or let such reads fail with TuningByObject.ReaderFailOnMissingInformer",
		"kind", kind, "representation", key.Representation.String(), "callSite", s.site)
}
