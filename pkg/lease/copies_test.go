// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/cache"
	"github.com/tarn-dev/tarn/pkg/lease"
)

// lagging is an API server of the Secret a, of which the watch tells when the test says so.
type lagging struct {
	version atomic.Int64 // of the Secret; zero if there is none
	events  atomic.Pointer[io.PipeWriter]
}

func (s *lagging) answer(r *http.Request) (*http.Response, error) {
	version := s.version.Load()
	switch {
	case r.URL.Query().Has("watch"):
		answer, events := answerWatch(r)
		s.events.Store(events)
		return answer, nil
	case !strings.HasSuffix(r.URL.Path, "/a"):
		list := fmt.Sprintf(`{"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "%d"}, "items": [%s]}`, version, s.metadata(version))
		return answerWith(r, http.StatusOK, strings.NewReader(list)), nil
	case version == 0:
		text := `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404, "message": "it is gone"}`
		return answerWith(r, http.StatusNotFound, strings.NewReader(text)), nil
	}
	return answerWith(r, http.StatusOK, strings.NewReader(strings.NewReplacer("PartialObjectMetadata", "Secret", "meta.k8s.io/v1", "v1").Replace(s.metadata(version)))), nil
}

func (s *lagging) metadata(version int64) string {
	return fmt.Sprintf(`{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"namespace": "shop", "name": "a", "resourceVersion": "%d"}}`, version)
}

// tell has the watch tell of an event.
func (s *lagging) tell(g *WithT, what string, version int64) {
	_, err := fmt.Fprintf(s.events.Load(), `{"type": %q, "object": %s}`, what, s.metadata(version))
	g.Expect(err).NotTo(HaveOccurred())
	synctest.Wait()
}

// TestACopyIsNotReadWhenItsMetadataAreGone has an object be deleted, made and deleted again, while the watch of the metadata lags.
func TestACopyIsNotReadWhenItsMetadataAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, server := NewWithT(t), &lagging{}
		server.version.Store(1)
		c, stop := onFakeServer(t, server.answer, cache.Options{})
		var read atomic.Value
		k, err := control(c, func(refs *lease.References[string]) { refs.SetNameWatches(0) }, 1, func(ctx context.Context, refs client.Reader, request string) error {
			obj := &corev1.Secret{}
			err := refs.Get(ctx, named("shop", "a"), obj)
			read.Store(obj.ResourceVersion)
			return client.IgnoreNotFound(err)
		})
		g.Expect(err).NotTo(HaveOccurred())
		t.Cleanup(func() {
			k.stop()
			stop()
		})
		get := func() any {
			k.queue.Add("r")
			synctest.Wait()
			return read.Load()
		}
		g.Expect(c.WaitForCacheSync(t.Context())).To(BeTrue())
		head := &metav1.PartialObjectMetadata{}
		head.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		metadata, err := lease.Acquire(t.Context(), c, head, lease.Scope{}) // lists version 1
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(metadata.WaitForSync(t.Context())).To(Succeed())
		server.version.Store(2)
		g.Expect(get()).To(Equal("2"))
		server.version.Store(4)
		server.tell(g, "DELETED", 3)
		g.Expect(get()).To(Equal("4"), "the metadata lag")
		server.tell(g, "ADDED", 4)
		server.version.Store(0)
		server.tell(g, "DELETED", 5)
		g.Expect(get()).To(Equal(""))
		g.Expect(metadata.Release()).To(Succeed())
	})
}
