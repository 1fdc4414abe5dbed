// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package lease_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/tarn-dev/tarn/pkg/cache"
	"github.com/tarn-dev/tarn/pkg/lease"
)

const (
	benchClaims  = 10_000 // requests
	benchSecrets = 2_000
	benchEach    = 5 // Secrets that a request reads
)

// BenchmarkWake reports what a change of a Secret costs the process of a controller: the event, the 25 requests that it wakes, and
// their reconciles, each of which reads a ConfigMap and five Secrets. "Index" has a handler that finds the requests by a field index.
func BenchmarkWake(b *testing.B) {
	b.Run("Index", func(b *testing.B) {
		benchmarkWake(b, func(g Gomega, ctx context.Context, c cache.Cache, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) reconcile.Reconciler {
			g.Expect(c.IndexField(ctx, &corev1.ConfigMap{}, "secrets", func(obj client.Object) []string {
				return strings.Fields(obj.(*corev1.ConfigMap).Data["secrets"])
			})).To(Succeed())
			g.Expect(source.Kind(c, client.Object(&corev1.Secret{}), handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, secret client.Object) (woken []reconcile.Request) {
				var claims corev1.ConfigMapList
				if err := c.List(ctx, &claims, client.MatchingFields{"secrets": secret.GetName()}); err != nil {
					b.Error(err)
				}
				for i := range claims.Items {
					woken = append(woken, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&claims.Items[i])})
				}
				return woken
			})).Start(ctx, queue)).To(Succeed())
			return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
				return reconcile.Result{}, readClaim(ctx, c, c, request)
			})
		})
	})
	b.Run("References", func(b *testing.B) {
		benchmarkWake(b, func(g Gomega, ctx context.Context, c cache.Cache, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) reconcile.Reconciler {
			refs, err := lease.NewReferences[reconcile.Request](c)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(refs.Source().Start(ctx, queue)).To(Succeed())
			return refs.Reconciler(reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
				return reconcile.Result{}, readClaim(ctx, c, refs, request)
			}))
		})
	})
}

// readClaim reads a ConfigMap, and the Secrets that it names.
func readClaim(ctx context.Context, c, refs client.Reader, request reconcile.Request) error {
	claim, secret := &corev1.ConfigMap{}, &corev1.Secret{}
	if err := c.Get(ctx, request.NamespacedName, claim); err != nil {
		return err
	}
	for name := range strings.FieldsSeq(claim.Data["secrets"]) {
		if err := refs.Get(ctx, named("shop", name), secret); err != nil {
			return err
		}
	}
	return nil
}

func benchmarkWake(b *testing.B, controller func(Gomega, context.Context, cache.Cache, workqueue.TypedRateLimitingInterface[reconcile.Request]) reconcile.Reconciler) {
	g := NewWithT(b)
	server := &benchServer{}
	c, stop := onFakeServer(b, server.answer, cache.Options{})
	ctx, cancel := context.WithCancel(b.Context())
	for _, obj := range []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}} {
		_, err := c.GetInformer(ctx, obj)
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(c.WaitForCacheSync(ctx)).To(BeTrue())
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	reconciler := controller(g, ctx, c, queue)
	var done atomic.Int64
	go func() {
		for {
			request, over := queue.Get()
			if over {
				return
			}
			if _, err := reconciler.Reconcile(ctx, request); err != nil {
				b.Error(err)
			}
			queue.Done(request)
			done.Add(1)
		}
	}()
	for i := range benchClaims {
		queue.Add(reconcile.Request{NamespacedName: named("shop", fmt.Sprint("claim-", i))})
	}
	quiet := func() bool { // nothing is waiting, for as long as events of the begin may take
		was := done.Load()
		time.Sleep(200 * time.Millisecond)
		return queue.Len() == 0 && done.Load() == was && was >= benchClaims
	}
	g.Eventually(quiet).WithTimeout(2 * time.Minute).Should(BeTrue())
	const woken = benchClaims * benchEach / benchSecrets
	i, before := 0, cpuTime()
	for b.Loop() {
		want := done.Load() + woken
		server.change(i % benchSecrets)
		for begin := time.Now(); done.Load() < want; {
			if time.Since(begin) > 20*time.Second {
				b.Fatalf("after %d changes %d of %d reconciles have run", i, done.Load(), want)
			}
			time.Sleep(20 * time.Microsecond)
		}
		i++
	}
	b.ReportMetric(float64(cpuTime()-before)/float64(i)/1000, "cpu-µs/op")
	queue.ShutDown()
	cancel()
	stop()
}

// cpuTime returns the processor time of the process.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// benchServer has the claims and the Secrets, and tells of changes of the Secrets.
type benchServer struct {
	secrets atomic.Pointer[io.PipeWriter]
	version int64
}

func (s *benchServer) answer(r *http.Request) (*http.Response, error) {
	kind := path.Base(r.URL.Path)
	if r.URL.Query().Has("watch") {
		if r.URL.Query().Has("sendInitialEvents") {
			return answerWith(r, http.StatusBadRequest, strings.NewReader("{}")), nil
		}
		watch, events := answerWatch(r)
		if kind == "secrets" {
			s.secrets.Store(events)
		}
		return watch, nil
	}
	var list any
	if kind == "secrets" {
		secrets := corev1.SecretList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "SecretList"}, ListMeta: metav1.ListMeta{ResourceVersion: "2"}}
		for i := range benchSecrets {
			secrets.Items = append(secrets.Items, *benchSecret(i, 1))
		}
		list = secrets
	} else {
		claims := corev1.ConfigMapList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMapList"}, ListMeta: metav1.ListMeta{ResourceVersion: "2"}}
		for i := range benchClaims {
			claims.Items = append(claims.Items, *benchClaim(i))
		}
		list = claims
	}
	text, err := json.Marshal(list)
	return answerWith(r, http.StatusOK, bytes.NewReader(text)), err
}

// change tells of an update of a Secret.
func (s *benchServer) change(i int) {
	s.version++
	text, _ := json.Marshal(map[string]any{"type": "MODIFIED", "object": benchSecret(i, 10+s.version)})
	_, _ = s.secrets.Load().Write(append(text, '\n'))
}

func benchSecret(i int, version int64) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("secret-", i), ResourceVersion: strconv.FormatInt(version, 10), UID: "u"},
		Data:       map[string][]byte{"key": bytes.Repeat([]byte{byte(version)}, 1000)},
	}
}

// benchClaim returns a ConfigMap that names five Secrets. Each Secret is named by 25 ConfigMaps.
func benchClaim(i int) *corev1.ConfigMap {
	var names []string
	for n := range benchEach {
		names = append(names, fmt.Sprint("secret-", (i+n*397)%benchSecrets))
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("claim-", i), ResourceVersion: "1"},
		Data:       map[string]string{"secrets": strings.Join(names, " ")},
	}
}
