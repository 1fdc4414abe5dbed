// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"github.com/tarn-dev/tarn/internal/ownwrites"
	"github.com/tarn-dev/tarn/pkg/informers"
)

var _ ownwrites.Noter = (*informerCache)(nil)

// representations are those that an object can be cached in, each by an informer of its own.
var representations = []informers.Representation{informers.Structured, informers.Unstructured, informers.Metadata}

// NoteWrite implements ownwrites.Noter for the client of pkg/client. It starts no informer: what
// nobody has read yet is listed after the write when somebody reads it.
func (c *informerCache) NoteWrite(w ownwrites.Write) {
	s, err := c.scopesOf(w.Kind)
	if err != nil {
		return
	}
	m, err := s.serving(w.Key.Namespace)
	if err != nil {
		return // the cache does not hold the namespace
	}
	for _, r := range representations {
		if entry, ok := m.Peek(informers.Key{GroupVersionKind: w.Kind, Representation: r}); ok {
			entry.NoteWrite(w)
		}
	}
}
