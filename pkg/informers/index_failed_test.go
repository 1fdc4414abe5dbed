// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// listing answers each list with the same Pods, and watches with nothing.
func listing(pods ...string) away {
	return func(r *http.Request) (*http.Response, error) {
		response := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r}
		response.Body = idleBody{nil, r.Context().Done()}
		if r.URL.Query().Get("watch") == "" {
			response.Body = io.NopCloser(strings.NewReader(
				`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[` + strings.Join(pods, ",") + `]}`))
		}
		return response, nil
	}
}

// TestAnIndexFunctionThatPanicsIsACause, in a process that goes on: the object is there, lists by the
// field lack it, and the policy of the kind decides what reads do.
func TestAnIndexFunctionThatPanicsIsACause(t *testing.T) {
	crash, handlers := utilruntime.ReallyCrash, utilruntime.PanicHandlers
	utilruntime.ReallyCrash, utilruntime.PanicHandlers = false, nil
	t.Cleanup(func() { utilruntime.ReallyCrash, utilruntime.PanicHandlers = crash, handlers })
	for _, policy := range []FailurePolicy{WaitOnFailure, FailFast, Isolate} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				o := testOptions()
				o.HTTPClient = &http.Client{Transport: listing(pod("a", 1, "n"), pod("b", 2, "n"))}
				o.Tuning = func(schema.GroupVersionKind) KindTuning { return KindTuning{OnFailure: policy} }
				m := NewMap(o)
				ctx, cancel := context.WithCancel(t.Context())
				entry, err := m.Get(ctx, podKey)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(entry.IndexField("odd", func(obj client.Object) []string {
					if obj.GetName() == "b" {
						panic("odd")
					}
					return []string{"even"}
				})).To(Succeed())
				ended := make(chan error, 1)
				go func() { ended <- m.Start(ctx) }()
				synctest.Wait()
				why := entry.NotSynced()
				g.Expect(why).NotTo(BeNil())
				g.Expect(why.Cause).To(Equal(IndexFailed))
				g.Expect(why.Cause.Mends()).To(BeFalse())
				g.Expect(why.Objects).To(Equal(1))
				g.Expect(why.Object.Name).To(Equal("b"))
				g.Expect(why).To(MatchError(And(ContainSubstring(`field "odd" of Pod (v1)`), ContainSubstring("lacks 1 object, because index function failed"))))
				switch read := entry.WaitForSync(ctx); policy {
				case WaitOnFailure:
					g.Expect(read).NotTo(HaveOccurred())
				default:
					g.Expect(read).To(MatchError(why))
				}
				cancel()
				if err := <-ended; policy == FailFast {
					g.Expect(err).To(MatchError(why))
				} else {
					g.Expect(err).NotTo(HaveOccurred())
				}
			})
		})
	}
}
