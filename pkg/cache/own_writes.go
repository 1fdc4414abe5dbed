// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/pending"
)

var _ pending.Noter = (*informerCache)(nil)

// NoteWrite implements pending.Noter for the client of pkg/client. It starts no informer: what
// nobody has read yet is listed after the write when somebody reads it.
func (c *informerCache) NoteWrite(w pending.Write) {
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
		return
	}
	m, err := s.mapOf(w.Key.Namespace)
	if err != nil { // the configuration does not hold the namespace, and a lease may
		s.maps[0].NoteKind(w.Kind.GroupKind(), w.Revision)
		return
	}
	m.NoteWrite(w)
	if m != s.maps[0] { // whose settings the informers of leases on all namespaces have
		s.maps[0].NoteKind(w.Kind.GroupKind(), w.Revision)
	}
}

// noteInLeases notes a write in the informers of leases.
func (c *informerCache) noteInLeases(w pending.Write) {
	made := c.leases.made.Load()
	if made == nil {
		return
	}
	for _, m := range (*made).Holding(w.Kind, w.Key) {
		m.NoteWrite(w)
	}
}
