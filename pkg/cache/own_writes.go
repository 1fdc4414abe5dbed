// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/note"
)

var _ note.Noter = (*informerCache)(nil)

// NoteWrite implements note.Noter for the client of pkg/client. It starts no informer: what
// nobody has read yet is listed after the write when somebody reads it.
func (c *informerCache) NoteWrite(w note.Write) {
	c.misses.live.Forget(w.Kind, w.Key)
	defer c.noteInLeases(w)                                  // after the map whose settings they have
	s, err := c.kinds.scopesOf(context.Background(), w.Kind) // known to the mapper since the write, as a rule
	if err != nil {
		return
	}
	if w.Key == (client.ObjectKey{}) { // it is of all namespaces
		for _, m := range s.maps {
			m.NoteWrite(w)
		}
		s.settings.NoteKind(w.Kind.GroupKind(), w.Revision) // for namespaces that enter
		return
	}
	m, err := s.mapOf(w.Key.Namespace)
	if err != nil { // the configuration does not hold the namespace, and a lease may
		s.settings.NoteKind(w.Kind.GroupKind(), w.Revision)
		return
	}
	m.NoteWrite(w)
	if m != s.settings { // whose settings the informers of leases on all namespaces have
		s.settings.NoteKind(w.Kind.GroupKind(), w.Revision)
	}
}

// noteInLeases notes a write in the informers of leases.
func (c *informerCache) noteInLeases(w note.Write) {
	made := c.leases.made.Load()
	if made == nil {
		return
	}
	for _, m := range (*made).Holding(w.Kind, w.Key) {
		m.NoteWrite(w)
	}
}
