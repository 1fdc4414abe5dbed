// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"net/http"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"

	"github.com/tarn-dev/tarn/internal/inspected"
)

// TestAnEventThatCannotBeDecodedIsACause: client-go makes a Status of it whose message does not say so.
func TestAnEventThatCannotBeDecodedIsACause(t *testing.T) {
	for _, representation := range []Representation{Structured, Unstructured, Metadata} {
		t.Run(representation.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				server := &restorable{}
				server.setList(100)
				o := testOptions()
				o.Name, o.HTTPClient = "undecodable-test", &http.Client{Transport: server}
				m := NewMap(o)
				stop := running(t, m)
				entry, err := m.Get(t.Context(), Key{GroupVersionKind: podKey.GroupVersionKind, Representation: representation})
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(entry.WaitForSync(t.Context())).To(Succeed())
				synctest.Wait()
				server.send(`{"type":"MODIFIED","object":"no Pod"}`)
				phase, err := entry.phase()
				g.Expect(phase).To(Equal(inspected.Interrupted))
				g.Expect(causeOf(err)).To(Equal(Undecodable), "%v", err)
				stop()
			})
		})
	}
}
