// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// telling answers lists with no Pod, and a watch with what the test writes.
type telling struct{ io.Reader }

func (s *telling) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Get("watch") == "" {
		return listing()(r)
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r, Body: io.NopCloser(s.Reader)}, nil
}

// TestReadsAreAnsweredWhenTheLastObjectIsThere has an isolated kind with an object for which a function of the user fails, until the
// watch tells that it is another one, or is gone.
func TestReadsAreAnsweredWhenTheLastObjectIsThere(t *testing.T) {
	crash, handlers := utilruntime.ReallyCrash, utilruntime.PanicHandlers
	utilruntime.ReallyCrash, utilruntime.PanicHandlers = false, nil
	t.Cleanup(func() { utilruntime.ReallyCrash, utilruntime.PanicHandlers = crash, handlers })
	for _, fails := range []Cause{TransformFailed, IndexFailed} {
		for _, event := range []string{"MODIFIED", "DELETED"} {
			t.Run(fmt.Sprint(fails, " ", event), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g := NewWithT(t)
					told, tell := io.Pipe()
					o := testOptions()
					o.HTTPClient = &http.Client{Transport: &telling{told}}
					o.Tuning = func(schema.GroupVersionKind) KindTuning { return KindTuning{OnFailure: Isolate} }
					if fails == TransformFailed {
						o.Transform = func(obj any) (any, error) {
							if obj.(*corev1.Pod).Spec.NodeName == "bad" {
								return nil, errors.New("bad")
							}
							return obj, nil
						}
					}
					m := runningMap(t, o)
					t.Cleanup(func() { _ = tell.CloseWithError(io.EOF) })
					entry, err := m.Get(t.Context(), podKey)
					g.Expect(err).NotTo(HaveOccurred())
					g.Expect(entry.IndexField("node", func(obj client.Object) []string {
						if node := obj.(*corev1.Pod).Spec.NodeName; node != "bad" {
							return []string{node}
						}
						panic("bad")
					})).To(Succeed())
					synctest.Wait()
					send := func(event string, object string) {
						_, _ = fmt.Fprintf(tell, `{"type":%q,"object":%s}`, event, object)
						synctest.Wait()
					}
					send("ADDED", pod("b", 6, "bad"))
					g.Expect(entry.TryForSync(t.Context())).To(MatchError(ContainSubstring(string(fails))))
					answered := make(chan error, 1)
					go func() { answered <- entry.WaitUntilAnswered(t.Context()) }()
					synctest.Wait()
					g.Expect(answered).To(BeEmpty())
					send(event, pod("b", 7, "good"))
					g.Expect(answered).To(Receive(BeNil()))
					g.Expect(entry.TryForSync(t.Context())).To(Succeed())
					ctx, cancel := context.WithCancelCause(t.Context())
					cancel(errors.New("no more"))
					g.Expect(entry.WaitUntilAnswered(ctx)).To(Succeed(), "it is answered")
				})
			})
		}
	}
}
