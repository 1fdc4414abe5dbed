// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/cache"
)

// refusing is an API server that has no Secret, and forbids to list them until it permits it.
type refusing struct{ permits atomic.Bool }

func (s *refusing) answer(r *http.Request) (*http.Response, error) {
	switch {
	case !s.permits.Load():
		text := `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403, "message": "secrets is forbidden"}`
		return answerWith(r, http.StatusForbidden, strings.NewReader(text)), nil
	case r.URL.Query().Has("watch"):
		nothing, _ := answerWatch(r)
		return nothing, nil
	}
	text := `{"kind": "SecretList", "apiVersion": "v1", "metadata": {"resourceVersion": "2"}}`
	return answerWith(r, http.StatusOK, strings.NewReader(text)), nil
}

// late is an informer that has synced when the test says so, after its handlers were told of all that there is.
type late struct {
	toolscache.SharedIndexInformer
	synced chan struct{}
}

func (l *late) HasSynced() bool                          { return toolscache.IsDone(l) }
func (l *late) HasSyncedChecker() toolscache.DoneChecker { return l }
func (l *late) Name() string                             { return "late" }
func (l *late) Done() <-chan struct{}                    { return l.synced }

// newInformer is the option of caches.
type newInformer = func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer

// TestARefusedReadIsRepeatedWhenItIsAnswered has a reconcile that reads what is forbidden, and that nobody but the references tries
// again. When it is permitted, there is no object of which a handler could be told, and the informer may say later than its handlers
// that it has synced.
func TestARefusedReadIsRepeatedWhenItIsAnswered(t *testing.T) {
	for name, informer := range map[string]func(synced chan struct{}) newInformer{
		"an informer of the cache": func(chan struct{}) newInformer { return nil },
		"an informer of client-go": func(chan struct{}) newInformer { return toolscache.NewSharedIndexInformer },
		"an informer that is later": func(synced chan struct{}) newInformer {
			return func(lw toolscache.ListerWatcher, of runtime.Object, period time.Duration, by toolscache.Indexers) toolscache.SharedIndexInformer {
				return &late{toolscache.NewSharedIndexInformer(lw, of, period, by), synced}
			}
		},
	} {
		for _, read := range []string{"get", "list"} {
			t.Run(name+"/"+read, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g, server, synced := NewWithT(t), &refusing{}, make(chan struct{})
					calls, last := readSecrets(t, server, informer(synced), read)
					time.Sleep(time.Minute)
					g.Expect(*last.Load()).To(MatchError(ContainSubstring("forbidden")))
					g.Expect(calls.Load()).To(BeEquivalentTo(1))
					server.permits.Store(true)
					time.Sleep(time.Minute) // a Reflector pauses for less
					close(synced)
					synctest.Wait()
					g.Expect(client.IgnoreNotFound(*last.Load())).To(Succeed())
					g.Expect(calls.Load()).To(BeEquivalentTo(2))
				})
			})
		}
	}
}

// readSecrets runs a cache and a controller until the test ends. Its one request reads Secrets once for each wake-up.
func readSecrets(t *testing.T, server *refusing, informer newInformer, read string) (calls *atomic.Int64, last *atomic.Pointer[error]) {
	g := NewWithT(t)
	c, stop := onFakeServer(t, server.answer, cache.Options{
		NewInformer:              informer,
		DefaultWatchErrorHandler: func(context.Context, *toolscache.Reflector, error) {}, // that of client-go waits outside of the bubble's time
	})
	calls, last = &atomic.Int64{}, &atomic.Pointer[error]{}
	k, err := control(c, nil, 1, func(ctx context.Context, refs client.Reader, _ string) error {
		err := error(nil)
		if read == "get" {
			err = refs.Get(ctx, named("shop", "tls"), &corev1.Secret{})
		} else {
			err = refs.List(ctx, &corev1.SecretList{}, client.InNamespace("shop"))
		}
		last.Store(&err)
		calls.Add(1)
		return nil // only a wake-up tries again
	})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() {
		k.stop()
		stop()
	})
	k.queue.Add("r")
	return calls, last
}
