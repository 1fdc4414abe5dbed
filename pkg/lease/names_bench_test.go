// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/pkg/cache"
	"github.com/tarn-dev/tarn/pkg/lease"
)

const (
	manySecrets = 33_500
	manyRead    = 10_000
	manyChanges = 500
)

// BenchmarkManyNames has 10,000 requests read a Secret each, of 33,500, and changes 500 of these one by one. It reports how many
// requests that takes, and how long after the begin of a write the reconcile begins. "Informer" has an informer of all Secrets and a mapping
// function. It is to be run once: -benchtime 1x.
func BenchmarkManyNames(b *testing.B) {
	g := NewWithT(b)
	env := envtest.New(envtest.Options{})
	g.Expect(env.Start(b.Context())).To(Succeed())
	defer func() { g.Expect(env.Stop()).To(Succeed()) }()
	api, err := client.New(env.Config(), client.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	var group errgroup.Group
	group.SetLimit(8)
	for i := range manySecrets {
		group.Go(func() error { return api.Create(b.Context(), secretOf("default", i, "first")) })
	}
	g.Expect(group.Wait()).To(Succeed())

	for _, names := range []int{0, 100} {
		b.Run(fmt.Sprint("References/watches=", names), func(b *testing.B) {
			benchmarkMany(b, env.Config(), api, func(g Gomega, ctx context.Context, c cache.Cache, queue workqueue.TypedRateLimitingInterface[reconcile.Request], began func(string)) reconcile.Reconciler {
				refs, err := lease.NewReferences[reconcile.Request](c)
				g.Expect(err).NotTo(HaveOccurred())
				refs.SetNameWatches(names)
				g.Expect(refs.Source().Start(ctx, queue)).To(Succeed())
				return refs.Reconciler(reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
					began(r.Name)
					return reconcile.Result{}, refs.Get(ctx, r.NamespacedName, &corev1.Secret{})
				}))
			})
		})
	}
	b.Run("Informer", func(b *testing.B) {
		benchmarkMany(b, env.Config(), api, func(g Gomega, ctx context.Context, c cache.Cache, queue workqueue.TypedRateLimitingInterface[reconcile.Request], began func(string)) reconcile.Reconciler {
			g.Expect(source.Kind(c, client.Object(&corev1.Secret{}), handler.EnqueueRequestsFromMapFunc(func(_ context.Context, secret client.Object) []reconcile.Request {
				return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(secret)}}
			})).Start(ctx, queue)).To(Succeed())
			return reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
				began(r.Name)
				return reconcile.Result{}, c.Get(ctx, r.NamespacedName, &corev1.Secret{})
			})
		})
	})
}

func benchmarkMany(b *testing.B, cfg *rest.Config, api client.Client, controller func(Gomega, context.Context, cache.Cache, workqueue.TypedRateLimitingInterface[reconcile.Request], func(string)) reconcile.Reconciler) {
	g := NewWithT(b)
	var lists, gets, open atomic.Int64
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			switch query := r.URL.Query(); {
			case query.Get("watch") == "true":
				open.Add(1)
				context.AfterFunc(r.Context(), func() { open.Add(-1) })
			case strings.Contains(r.URL.Path, "/secrets/"):
				gets.Add(1)
			case query.Has("resourceVersion"):
				lists.Add(1)
			}
			return next.RoundTrip(r)
		})
	})
	c, err := cache.With(cache.Tuning{NoMetrics: true, LeaseIdleTime: idle})(cfg, cache.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	g.Expect(c.WaitForCacheSync(ctx)).To(BeTrue())
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	var seen sync.Map // the time of the newest reconcile of each request
	var done atomic.Int64
	reconciler := controller(g, ctx, c, queue, func(name string) { seen.Store(name, time.Now()) })
	for range 4 {
		go func() {
			for {
				request, over := queue.Get()
				if over {
					return
				}
				if _, err := reconciler.Reconcile(ctx, request); err != nil && ctx.Err() == nil {
					b.Error(err)
				}
				queue.Done(request)
				done.Add(1)
			}
		}()
	}
	for b.Loop() {
		for i := range manyRead {
			queue.Add(reconcile.Request{NamespacedName: named("default", fmt.Sprint("secret-", i))})
		}
		was := int64(0)
		g.Eventually(func() bool { // all have been read, and nobody waits
			before := was
			was = done.Load()
			return was >= manyRead && was == before && queue.Len() == 0
		}).WithTimeout(5 * time.Minute).WithPolling(2 * time.Second).Should(BeTrue())
		b.ReportMetric(float64(gets.Load()), "GETs")
		gets.Store(0)
		var took []time.Duration
		for i := range manyChanges {
			name := fmt.Sprint("secret-", i*(manyRead/manyChanges))
			written := time.Now()
			g.Expect(api.Update(ctx, secretOf("default", i*(manyRead/manyChanges), fmt.Sprint(written)))).To(Succeed())
			for {
				at, ok := seen.Load(name)
				if late := time.Since(written); ok && at.(time.Time).After(written) {
					took = append(took, at.(time.Time).Sub(written))
					break
				} else if late > 20*time.Second {
					b.Fatalf("no reconcile after the change of %s", name)
				}
				time.Sleep(50 * time.Microsecond)
			}
		}
		slices.Sort(took)
		b.ReportMetric(float64(gets.Load())/manyChanges, "GETs/change")
		b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
		b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
		b.ReportMetric(float64(open.Load()), "watches")
	}
	b.ReportMetric(float64(lists.Load()), "lists")
	queue.ShutDown()
	cancel()
	g.Expect(<-ended).To(Succeed())
}
