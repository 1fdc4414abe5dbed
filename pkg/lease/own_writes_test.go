// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/cache"
	ownclient "github.com/tarn-dev/tarn/pkg/client"
	"github.com/tarn-dev/tarn/pkg/lease"
)

// writer returns a client on a cache, whose responses come so much later than the events.
func writer(c cache.Cache, late time.Duration) client.Client {
	GinkgoHelper()
	to := rest.CopyConfig(cfg)
	to.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(req)
			time.Sleep(late)
			return response, err
		})
	})
	own, err := ownclient.New(to, client.Options{Cache: &client.CacheOptions{Reader: c}})
	Expect(err).NotTo(HaveOccurred())
	return own
}

var _ = Describe("References that ignore own writes", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) { namespace = newNamespace(ctx) })
	ignore := func(refs *lease.References[string]) { refs.IgnoreOwnWrites() }
	// wakeUps counts the wake-ups of requests.
	var woken sync.Map
	wakeUps := func(request string) func() int {
		return func() int {
			n, _ := woken.LoadOrStore(request, &atomic.Int64{})
			return int(n.(*atomic.Int64).Load())
		}
	}
	BeforeEach(func() { woken.Clear() })

	type write func(ctx context.Context, own client.Client, obj *corev1.ConfigMap) error
	change := func(obj *corev1.ConfigMap) *corev1.ConfigMap {
		obj.Data = map[string]string{"changed": metav1.Now().Format(time.RFC3339Nano)}
		return obj
	}
	update := func(ctx context.Context, own client.Client, obj *corev1.ConfigMap) error {
		return own.Update(ctx, change(obj))
	}
	patch := func(of func(*corev1.ConfigMap) client.Patch) write {
		return func(ctx context.Context, own client.Client, obj *corev1.ConfigMap) error {
			by := of(obj.DeepCopy())
			return own.Patch(ctx, change(obj), by)
		}
	}
	apply := func(versioned bool) write {
		return func(ctx context.Context, own client.Client, obj *corev1.ConfigMap) error {
			what := corev1ac.ConfigMap(obj.Name, obj.Namespace).WithData(map[string]string{"applied": "true"})
			if versioned {
				what = what.WithResourceVersion(obj.ResourceVersion)
			}
			return own.Apply(ctx, what, client.FieldOwner("test"), client.ForceOwnership)
		}
	}

	DescribeTable("are woken by", func(ctx SpecContext, do write, own bool) {
		for _, late := range []time.Duration{0, 200 * time.Millisecond} {
			for _, asList := range []bool{false, true} {
				name := map[bool]string{false: "name", true: "list"}[asList] + late.String()
				create(ctx, configMap(namespace, name, name))
				c, _ := started(ctx, cache.Tuning{}, cache.Options{})
				writes := writer(c, late)
				var refs *lease.References[string]
				var first atomic.Bool
				first.Store(true)
				k := runWith(c, func(r *lease.References[string]) { refs = r; ignore(r) }, 2, func(ctx context.Context, from client.Reader, request string) error {
					wakeUps(request)()
					n, _ := woken.Load(request)
					n.(*atomic.Int64).Add(int64(len(refs.WakeUps(ctx))))
					obj := &corev1.ConfigMap{}
					err := from.Get(ctx, named(namespace, name), obj)
					if asList {
						list := &corev1.ConfigMapList{}
						if err := from.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{"app": name}); err != nil {
							return err
						}
						if len(list.Items) > 0 {
							obj = &list.Items[0]
						}
					}
					if request == "writes"+name && first.CompareAndSwap(true, false) {
						return do(ctx, writes, obj)
					}
					return client.IgnoreNotFound(err)
				})
				k.queue.Add("reads" + name)
				Eventually(k.Calls("reads" + name)).Should(Equal(1))
				k.queue.Add("writes" + name)
				Eventually(k.Calls("reads" + name)).Should(BeNumerically(">", 1)) // it is told after "writes" is, or at the same time
				Eventually(k.Calls("writes" + name)).Should(BeNumerically(">=", 1))
				if !own {
					Eventually(wakeUps("writes"+name)).Should(BeNumerically(">", 0), name)
					continue
				}
				Consistently(wakeUps("writes"+name)).WithTimeout(300*time.Millisecond).Should(BeZero(), name)
				by := configMap(namespace, name, name)
				by.Data = map[string]string{"by": "another"}
				Expect(client.IgnoreNotFound(api.Update(ctx, by))).To(Succeed())
				Eventually(wakeUps("writes"+name)).Should(BeNumerically(">", 0), name)
			}
		}
	},
		Entry("no update", write(update), true),
		Entry("no updates, one after the other", write(func(ctx context.Context, own client.Client, obj *corev1.ConfigMap) error {
			return errors.Join(update(ctx, own, obj), update(ctx, own, obj), update(ctx, own, obj))
		}), true),
		Entry("no patch of the version", patch(func(obj *corev1.ConfigMap) client.Patch {
			return client.MergeFromWithOptions(obj, client.MergeFromWithOptimisticLock{})
		}), true),
		Entry("no apply of the version", apply(true), true),
		Entry("an update without the version", write(func(ctx context.Context, own client.Client, obj *corev1.ConfigMap) error {
			obj.ResourceVersion = ""
			return update(ctx, own, obj)
		}), false),
		Entry("a patch without the version", patch(func(obj *corev1.ConfigMap) client.Patch { return client.MergeFrom(obj) }), false),
		Entry("a JSON patch", write(func(ctx context.Context, own client.Client, obj *corev1.ConfigMap) error {
			return own.Patch(ctx, obj, client.RawPatch(types.JSONPatchType, []byte(`[{"op":"add","path":"/data/a","value":"b"}]`)))
		}), false),
		Entry("an apply without the version", apply(false), false),
		Entry("a deletion", write(func(ctx context.Context, own client.Client, obj *corev1.ConfigMap) error { return own.Delete(ctx, obj) }), false),
		Entry("a change of before an update that is refused", write(func(ctx context.Context, own client.Client, obj *corev1.ConfigMap) error {
			if err := api.Update(ctx, change(obj.DeepCopy())); err != nil {
				return err
			}
			if err := own.Update(ctx, change(obj)); !apierrors.IsConflict(err) {
				return errors.New("no conflict")
			}
			return nil
		}), false),
		Entry("a change of before a patch", write(func(ctx context.Context, own client.Client, obj *corev1.ConfigMap) error {
			if err := api.Update(ctx, change(obj.DeepCopy())); err != nil {
				return err
			}
			return own.Patch(ctx, obj, client.RawPatch(types.MergePatchType, []byte(`{"data":{"a":"b"}}`)))
		}), false),
		Entry("a change of before a patch that changes nothing", write(func(ctx context.Context, own client.Client, obj *corev1.ConfigMap) error {
			if err := api.Update(ctx, change(obj.DeepCopy())); err != nil {
				return err
			}
			return own.Patch(ctx, obj, client.RawPatch(types.MergePatchType, []byte(`{}`)))
		}), false),
		Entry("a change of after an update", write(func(ctx context.Context, own client.Client, obj *corev1.ConfigMap) error {
			return errors.Join(own.Update(ctx, change(obj)), api.Update(ctx, change(obj.DeepCopy())))
		}), false),
		Entry("an update with another context", write(func(_ context.Context, own client.Client, obj *corev1.ConfigMap) error {
			return update(context.Background(), own, obj)
		}), false),
	)

	It("are woken by no creation of what was absent, and by its deletion", func(ctx SpecContext) {
		c, _ := started(ctx, cache.Tuning{}, cache.Options{})
		writes := writer(c, 100*time.Millisecond)
		k := runWith(c, ignore, 1, func(ctx context.Context, refs client.Reader, _ string) (failed error) {
			GinkgoWriter.Println("woken by", refs.(*lease.References[string]).WakeUps(ctx))
			defer func() { GinkgoWriter.Println("returns", failed) }()
			if err := refs.List(ctx, &corev1.ConfigMapList{}, client.InNamespace(namespace), client.MatchingLabels{"app": "made"}); err != nil {
				return err
			}
			obj := &corev1.ConfigMap{}
			err := refs.Get(ctx, named(namespace, "made"), obj)
			if !apierrors.IsNotFound(err) {
				return err
			}
			if err := writes.Create(ctx, configMap(namespace, "made", "made")); err != nil {
				return err
			}
			return refs.Get(ctx, named(namespace, "made"), obj) // as it has written it
		})
		k.queue.Add("r")
		Eventually(k.Calls("r")).Should(Equal(1))
		Consistently(k.Calls("r")).WithTimeout(300 * time.Millisecond).Should(Equal(1))
		Expect(api.Delete(ctx, configMap(namespace, "made", ""))).To(Succeed())
		Eventually(k.Calls("r")).Should(BeNumerically(">", 1)) // the list and the name may tell it one after the other
		Eventually(func() error { return api.Get(ctx, named(namespace, "made"), &corev1.ConfigMap{}) }).Should(Succeed())
	})
})
