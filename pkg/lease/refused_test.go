// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
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
	"github.com/tarn-dev/tarn/pkg/lease"
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
					g.Expect(last.Load().err).To(MatchError(ContainSubstring("forbidden")))
					g.Expect(calls.Load()).To(BeEquivalentTo(1))
					server.permits.Store(true)
					time.Sleep(time.Minute) // a Reflector pauses for less
					close(synced)
					synctest.Wait()
					g.Expect(client.IgnoreNotFound(last.Load().err)).To(Succeed())
					g.Expect(calls.Load()).To(BeEquivalentTo(2))
					g.Expect(last.Load().wakeUps).To(ConsistOf(HaveField("Change", "Answered")))
				})
			})
		}
	}
}

// reconciled is what a reconcile has seen.
type reconciled struct {
	err     error
	wakeUps []lease.WakeUp
}

// readSecrets runs a cache and a controller until the test ends. Its one request reads Secrets once for each wake-up.
func readSecrets(t *testing.T, server *refusing, informer newInformer, read string) (calls *atomic.Int64, last *atomic.Pointer[reconciled]) {
	g := NewWithT(t)
	c, stop := onFakeServer(t, server.answer, cache.Options{
		NewInformer:              informer,
		DefaultWatchErrorHandler: func(context.Context, *toolscache.Reflector, error) {}, // that of client-go waits outside of the bubble's time
	})
	calls, last = &atomic.Int64{}, &atomic.Pointer[reconciled]{}
	k, err := control(c, nil, 1, func(ctx context.Context, refs client.Reader, _ string) error {
		err := error(nil)
		if read == "get" {
			err = refs.Get(ctx, named("shop", "tls"), &corev1.Secret{})
		} else {
			err = refs.List(ctx, &corev1.SecretList{}, client.InNamespace("shop"))
		}
		last.Store(&reconciled{err, refs.(*lease.References[string]).WakeUps(ctx)})
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

// namedSecrets is an API server that permits Secrets by their names alone, as a Role with resourceNames does. Each has a fixed version.
type namedSecrets struct {
	permitted, forbidden atomic.Int64 // lists
}

func (s *namedSecrets) answer(r *http.Request) (*http.Response, error) {
	name, ok := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
	switch {
	case !ok:
		s.forbidden.Add(1)
		return (&refusing{}).answer(r)
	case r.URL.Query().Has("watch"):
		nothing, _ := answerWatch(r)
		return nothing, nil
	}
	s.permitted.Add(1)
	text := fmt.Sprintf(`{"kind": "SecretList", "apiVersion": "v1", "metadata": {"resourceVersion": "2"}, "items": [{"metadata": {"namespace": "shop", "name": %q, "resourceVersion": "1"}}]}`, name)
	return answerWith(r, http.StatusOK, strings.NewReader(text)), nil
}

// TestNamesAboveTheBoundWhereOnlyNamesArePermitted has twenty requests read a name each, of which three are watched by themselves, and tries
// again at once what is refused. Nothing but names is permitted: all others share one list that is refused, and is repeated as rarely as
// that of any informer, as long as somebody refers to them.
func TestNamesAboveTheBoundWhereOnlyNamesArePermitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, server, errs := NewWithT(t), &namedSecrets{}, sync.Map{}
		c, stop := onFakeServer(t, server.answer, cache.Options{
			DefaultWatchErrorHandler: func(context.Context, *toolscache.Reflector, error) {}, // that of client-go waits outside of the bubble's time
		})
		defer stop()
		var given atomic.Bool
		k, err := control(c, func(refs *lease.References[string]) { refs.SetNameWatches(3) }, 2, func(ctx context.Context, refs client.Reader, request string) error {
			if given.Load() {
				return nil
			}
			err := refs.Get(ctx, named("shop", request), &corev1.Secret{})
			errs.Store(request, err)
			return err
		})
		g.Expect(err).NotTo(HaveOccurred())
		defer k.stop()
		name := func(i int) string { return fmt.Sprint("secret-", i) }
		for i := range 20 {
			k.queue.Add(name(i))
			time.Sleep(100 * time.Millisecond) // in this order
		}
		time.Sleep(3 * time.Minute)
		for i := range 20 {
			err, _ := errs.Load(name(i))
			if i < 3 {
				g.Expect(err).To(BeNil())
				continue
			}
			g.Expect(err).To(MatchError(And(HavePrefix("cannot refer to Secret "+name(i)+" by its metadata among all: the cache of Secret (v1) as metadata has not synced: forbidden"),
				ContainSubstring("kind: ClusterRole"), HaveSuffix("(References.SetNameWatches sets how many names are watched one by one)"))))
			g.Expect(k.Calls(name(i))()).To(BeNumerically(">", 1000))
		}
		g.Expect(server.permitted.Load()).To(BeEquivalentTo(3))
		g.Expect(server.forbidden.Load()).To(And(BeNumerically(">", 3), BeNumerically("<", 20)), "the pauses of client-go's Reflector grow to half a minute, and begin anew after two minutes")

		given.Store(true)
		time.Sleep(31 * time.Second) // the idle time
		g.Expect(informersOf(c)).To(HaveLen(3), "those that have succeeded are not reconciled")
		last := server.forbidden.Load()
		time.Sleep(time.Hour)
		g.Expect(server.forbidden.Load()).To(Equal(last))
	})
}
