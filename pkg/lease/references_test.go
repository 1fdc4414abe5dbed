// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tarn-dev/tarn/pkg/cache"
	"github.com/tarn-dev/tarn/pkg/lease"
)

// controller runs a reconciler as controller-runtime does, for requests that are strings.
type controller struct {
	refs  *lease.References[string]
	queue workqueue.TypedRateLimitingInterface[string]
	stop  func()

	mu    sync.Mutex // guards calls
	calls map[string]int
}

// run runs a reconciler with so many workers until the spec ends.
func run(c cache.Cache, workers int, reconciler func(ctx context.Context, refs client.Reader, request string) error) *controller {
	GinkgoHelper()
	return runWith(c, nil, workers, reconciler)
}

// runWith is run with a setting of the references.
func runWith(c cache.Cache, set func(*lease.References[string]), workers int, reconciler func(ctx context.Context, refs client.Reader, request string) error) *controller {
	GinkgoHelper()
	k, err := control(c, set, workers, reconciler)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(k.stop)
	return k
}

// control is runWith for a test that stops the controller itself.
func control(c cache.Cache, set func(*lease.References[string]), workers int, reconciler func(ctx context.Context, refs client.Reader, request string) error) (*controller, error) {
	refs, err := lease.NewReferences[string](c)
	if err != nil {
		return nil, err
	}
	if set != nil {
		set(refs)
	}
	limit := workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Millisecond, 50*time.Millisecond)
	k := &controller{refs: refs, queue: workqueue.NewTypedRateLimitingQueue(limit), calls: map[string]int{}}
	ctx, cancel := context.WithCancel(context.Background())
	if err := refs.Source().Start(ctx, k.queue); err != nil {
		cancel()
		return nil, err
	}
	wrapped := refs.Reconciler(reconcile.TypedFunc[string](func(ctx context.Context, request string) (reconcile.Result, error) {
		err := reconciler(ctx, refs, request)
		k.mu.Lock()
		k.calls[request]++
		k.mu.Unlock()
		return reconcile.Result{}, err
	}))
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for {
				request, over := k.queue.Get()
				if over {
					return
				}
				if _, err := wrapped.Reconcile(ctx, request); err != nil {
					k.queue.AddRateLimited(request)
				} else {
					k.queue.Forget(request)
				}
				k.queue.Done(request)
			}
		})
	}
	k.stop = sync.OnceFunc(func() {
		k.queue.ShutDown()
		cancel()
		running.Wait()
	})
	return k, nil
}

// Calls returns how often a request was reconciled.
func (k *controller) Calls(request string) func() int {
	return func() int {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.calls[request]
	}
}

var _ = Describe("References", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) { namespace = newNamespace(ctx) })

	It("wake the request that has read what changes, and no other", func(ctx SpecContext) {
		create(ctx, configMap(namespace, "one", "web"), configMap(namespace, "two", "web"))
		c, requests := started(ctx, cache.Tuning{}, cache.Options{})
		var forgets atomic.Bool
		k := run(c, 2, func(ctx context.Context, refs client.Reader, request string) error {
			if forgets.Load() {
				return nil
			}
			u, m := &unstructured.Unstructured{}, &metav1.PartialObjectMetadata{}
			u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
			m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
			var err error
			switch request {
			case "typed":
				err = refs.Get(ctx, named(namespace, "one"), &corev1.ConfigMap{})
			case "unstructured":
				err = refs.Get(ctx, named(namespace, "two"), u)
			case "metadata":
				err = refs.Get(ctx, named(namespace, "three"), m)
			case "list":
				err = refs.List(ctx, &corev1.SecretList{}, client.InNamespace(namespace), client.MatchingLabels{"app": "web"})
			}
			return client.IgnoreNotFound(err)
		})
		all := []string{"typed", "unstructured", "metadata", "list"}
		counts := map[string]int{}
		settled := func(woken ...string) {
			GinkgoHelper()
			for _, request := range woken {
				Eventually(k.Calls(request)).Should(BeNumerically(">", counts[request]), request)
			}
			time.Sleep(100 * time.Millisecond) // for a wake-up too many
			for _, request := range all {
				now := k.Calls(request)()
				most := counts[request]
				for _, w := range woken {
					if w == request {
						most++
					}
				}
				Expect(now).To(BeNumerically("<=", most), request)
				counts[request] = now
			}
		}
		for _, request := range all {
			k.queue.Add(request)
		}
		settled(all...)
		Expect(requests.Open()).To(HaveLen(4))

		change := func(name string, labels map[string]string) {
			GinkgoHelper()
			now := &corev1.ConfigMap{}
			Expect(api.Get(ctx, named(namespace, name), now)).To(Succeed())
			now.Labels = labels
			Expect(api.Update(ctx, now)).To(Succeed())
		}
		change("one", nil)
		settled("typed")
		change("two", nil)
		settled("unstructured")
		create(ctx, configMap(namespace, "three", "x"))
		settled("metadata")
		Expect(api.Delete(ctx, configMap(namespace, "three", "x"))).To(Succeed())
		settled("metadata")
		Expect(api.Delete(ctx, configMap(namespace, "one", "x"))).To(Succeed())
		settled("typed")
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "s", Labels: map[string]string{"app": "db"}}}
		create(ctx, secret)
		settled()
		for _, app := range []string{"web", "db"} { // it enters, and leaves
			secret.Labels["app"] = app
			Expect(api.Update(ctx, secret)).To(Succeed())
			settled("list")
		}

		forgets.Store(true)
		for _, request := range all {
			k.queue.Add(request)
		}
		Eventually(requests.Open).Should(BeEmpty())
		Expect(informersOf(c)).To(BeEmpty())
	})

	It("say why a request is reconciled", func(ctx SpecContext) {
		c, _ := started(ctx, cache.Tuning{}, cache.Options{})
		why, fails := make(chan []lease.WakeUp, 100), atomic.Bool{}
		k := run(c, 1, func(ctx context.Context, reader client.Reader, _ string) (err error) {
			refs := reader.(*lease.References[string])
			wakeUps := refs.WakeUps(ctx)
			defer func() { why <- wakeUps }() // when it holds what it has read, and what it returns is certain
			if fails.Load() {
				return errors.New("failed")
			}
			if err := refs.List(ctx, &corev1.SecretList{}, client.InNamespace(namespace), client.MatchingLabels{"app": "web"}); err != nil {
				return err
			}
			return client.IgnoreNotFound(refs.Get(ctx, named(namespace, "one"), &corev1.ConfigMap{}))
		})
		is := func(kind, name, change string) OmegaMatcher {
			return And(HaveField("Kind.Kind", kind), HaveField("Object", named(namespace, name)), HaveField("Change", change), HaveField("At", BeTemporally("~", time.Now(), time.Minute)))
		}
		next := func(matcher OmegaMatcher) {
			GinkgoHelper()
			var now []lease.WakeUp
			Eventually(why).Should(Receive(&now))
			Expect(now).To(matcher)
		}
		k.queue.Add("r")
		next(BeEmpty())
		one := configMap(namespace, "one", "web")
		create(ctx, one)
		next(ConsistOf(is("ConfigMap", "one", "Added")))
		one.Data["app"] = "db"
		Expect(api.Update(ctx, one)).To(Succeed())
		next(ConsistOf(And(is("ConfigMap", "one", "Modified"), HaveField("Scope", Equal(lease.Scope{Namespace: namespace, Name: "one"})))))
		create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "s", Labels: map[string]string{"app": "web"}}})
		next(ConsistOf(And(is("Secret", "s", "Added"), HaveField("String()", ContainSubstring("app=web")))))

		fails.Store(true)
		Expect(api.Delete(ctx, one)).To(Succeed())
		next(ConsistOf(is("ConfigMap", "one", "Deleted")))
		next(ConsistOf(is("ConfigMap", "one", "Deleted"), HaveField("Change", "Retried")))
		fails.Store(false)
		Eventually(func() (now []lease.WakeUp) {
			k.queue.Add("r") // once may be one with the retry
			Eventually(why).Should(Receive(&now))
			return now
		}).Should(BeEmpty())
		Expect(k.refs.WakeUps(ctx)).To(BeNil())
	})

	It("have one handler in a wider informer, and keep the old set when a reconcile fails", func(ctx SpecContext) {
		create(ctx, configMap(namespace, "one", "web"), configMap(namespace, "two", "web"))
		c, requests := started(ctx, cache.Tuning{}, cache.Options{})
		_, err := c.GetInformer(ctx, &corev1.ConfigMap{})
		Expect(err).NotTo(HaveOccurred())
		before := requests.Made()
		var name atomic.Value
		var fails atomic.Bool
		name.Store("one")
		k := run(c, 1, func(ctx context.Context, refs client.Reader, _ string) error {
			err := refs.Get(ctx, named(namespace, name.Load().(string)), &corev1.ConfigMap{})
			if fails.Load() {
				return errors.New("failed")
			}
			return err
		})
		touch := func(name string) {
			GinkgoHelper()
			now := &corev1.ConfigMap{}
			Expect(api.Get(ctx, named(namespace, name), now)).To(Succeed())
			now.Data = map[string]string{"now": time.Now().String()}
			Expect(api.Update(ctx, now)).To(Succeed())
		}
		k.queue.Add("r")
		Eventually(k.Calls("r")).Should(Equal(1))
		fails.Store(true)
		name.Store("two")
		k.queue.Add("r")
		Eventually(k.Calls("r")).Should(BeNumerically(">", 3))
		name.Store("none")
		fails.Store(false)
		Eventually(func() error {
			now := k.Calls("r")()
			touch("one") // it is held, unless a reconcile has succeeded
			time.Sleep(50 * time.Millisecond)
			if k.Calls("r")() == now {
				return nil
			}
			return errors.New("still woken")
		}).Should(MatchError("still woken"))
		Expect(requests.Made()).To(Equal(before))
	})

	It("refuse what cannot be referred to", func(ctx SpecContext) {
		c, _ := started(ctx, cache.Tuning{}, cache.Options{})
		refs, err := lease.NewReferences[string](c)
		Expect(err).NotTo(HaveOccurred())
		get := func(ctx context.Context, key client.ObjectKey, obj client.Object) error {
			return refs.Get(ctx, key, obj)
		}
		Expect(get(ctx, named(namespace, "one"), &corev1.ConfigMap{})).To(MatchError(ContainSubstring("not that of a reconcile")))
		var kept context.Context
		inside := func(f func(ctx context.Context) error) error {
			_, err := refs.Reconciler(reconcile.TypedFunc[string](func(ctx context.Context, _ string) (reconcile.Result, error) {
				kept = ctx
				return reconcile.Result{}, f(ctx)
			})).Reconcile(ctx, "r")
			return err
		}
		one := func(ctx context.Context) error { return get(ctx, named(namespace, "one"), &corev1.ConfigMap{}) }
		Expect(inside(one)).To(MatchError(ContainSubstring("the source of the references has not started")))
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
		defer queue.ShutDown()
		its, end := context.WithCancel(ctx)
		Expect(refs.Source().Start(its, queue)).To(Succeed())
		Expect(refs.Source().Start(its, queue)).To(MatchError(ContainSubstring("was started already")))
		Expect(inside(one)).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
		Expect(get(kept, named(namespace, "one"), &corev1.ConfigMap{})).To(MatchError(ContainSubstring("before it returns")))
		Expect(inside(func(ctx context.Context) error { return get(ctx, named(namespace, ""), &corev1.ConfigMap{}) })).To(MatchError(ContainSubstring("no Name")))
		Expect(inside(func(ctx context.Context) error { return get(ctx, named("", "one"), &corev1.ConfigMap{}) })).To(MatchError(ContainSubstring("no Namespace")))
		Expect(inside(func(ctx context.Context) error { return get(ctx, named(namespace, "one"), &corev1.Node{}) })).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
		Expect(inside(func(ctx context.Context) error {
			return refs.List(ctx, &corev1.ConfigMapList{}, client.MatchingFields{"data.x": "y"})
		})).To(MatchError(ContainSubstring("field selector")))
		Expect(informersOf(c)).To(HaveLen(2))
		end()
		Eventually(func() []string { return informersOf(c) }).Should(BeEmpty(), "the end of the source releases all")
		Expect(inside(one)).To(MatchError(ContainSubstring("has ended")))
		_, err = lease.NewReferences[string](nil)
		Expect(err).To(MatchError(ContainSubstring("has no leases")))
	})

	It("that are forbidden fail at once, and wake when they are permitted", func(ctx SpecContext) {
		create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tls"}})
		user := "referrer-" + namespace
		its, err := env.AddUser(user)
		Expect(err).NotTo(HaveOccurred())
		c, _ := newCache(its, cache.Tuning{}, cache.Options{})
		start(c)
		var last atomic.Value
		k := run(c, 1, func(ctx context.Context, refs client.Reader, _ string) error {
			err := refs.Get(ctx, named(namespace, "tls"), &corev1.Secret{})
			last.Store(fmt.Sprint(err))
			return nil // only a wake-up tries again
		})
		k.queue.Add("r")
		Eventually(last.Load).Should(ContainSubstring("forbidden"))
		permit(ctx, namespace, user, []string{"list", "watch"}, "tls")
		Eventually(last.Load).WithTimeout(60 * time.Second).Should(Equal("<nil>"))
	})

	It("to one list, read twice in a reconcile, do not wake for what is not in it", func(ctx SpecContext) {
		c, _ := started(ctx, cache.Tuning{}, cache.Options{})
		_, err := c.GetInformer(ctx, &corev1.ConfigMap{})
		Expect(err).NotTo(HaveOccurred())
		k := run(c, 1, func(ctx context.Context, refs client.Reader, _ string) error {
			list := &corev1.ConfigMapList{}
			if err := refs.List(ctx, list, client.InNamespace(namespace)); err != nil {
				return err
			}
			before := list.ResourceVersion
			create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, GenerateName: "other-"}})
			for list.ResourceVersion == before {
				if err := refs.List(ctx, list, client.InNamespace(namespace)); err != nil {
					return err
				}
			}
			return nil
		})
		k.queue.Add("r")
		Eventually(k.Calls("r")).Should(BeNumerically(">=", 1))
		Consistently(k.Calls("r")).WithTimeout(500 * time.Millisecond).Should(BeNumerically("<=", 2))
	})

	It("to what no label can select are empty", func(ctx SpecContext) {
		c, requests := started(ctx, cache.Tuning{}, cache.Options{})
		var items atomic.Int64
		k := run(c, 1, func(ctx context.Context, refs client.Reader, _ string) error {
			list := &corev1.ConfigMapList{Items: make([]corev1.ConfigMap, 3)}
			err := refs.List(ctx, list, client.MatchingLabelsSelector{Selector: labels.Nothing()})
			items.Store(int64(len(list.Items)))
			return err
		})
		k.queue.Add("r")
		Eventually(k.Calls("r")).Should(Equal(1))
		Expect(items.Load()).To(BeZero())
		Expect(requests.Made()).To(BeEmpty())
	})

	DescribeTable("lose no change between a read and its watch, whatever happens", func(ctx SpecContext, nameWatches int, informer newInformer, ownWrites bool) {
		const count, writers = 12, 3
		second := newNamespace(ctx)
		namespaces := []string{namespace, second}
		its := rest.CopyConfig(cfg)
		var cuts atomic.Bool
		cuts.Store(true)
		its.Wrap(func(next http.RoundTripper) http.RoundTripper { return cutting(next, &cuts) })
		c, requests := newCache(its, cache.Tuning{}, cache.Options{NewInformer: informer})
		start(c)
		chance := func(n uint64) *random {
			return &random{rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), n)), namespaces}
		}
		var mu sync.Mutex // guards what follows
		reads := map[string][]func(ctx context.Context, from client.Reader) (map[string]string, error){}
		results := map[string]map[string]string{}
		var failing atomic.Int64
		set := func(refs *lease.References[string]) {
			if refs.SetNameWatches(nameWatches); ownWrites {
				refs.IgnoreOwnWrites()
			}
		}
		writing, stopWriting := context.WithCancel(ctx)
		own := writer(c, 0)
		made := map[string]map[string]string{} // the versions that each request has made, and of which; guarded by mu
		k := runWith(c, set, 4, func(ctx context.Context, refs client.Reader, request string) error {
			mu.Lock()
			now := reads[request]
			mu.Unlock()
			all := map[string]string{}
			for _, read := range now {
				got, err := read(ctx, refs)
				if err != nil {
					return err
				}
				maps.Copy(all, got)
			}
			mu.Lock()
			results[request] = all
			mu.Unlock()
			n := failing.Add(1)
			if r := chance(2000 + uint64(n)); ownWrites && writing.Err() == nil && r.IntN(3) > 0 {
				r.writeOwn(ctx, own, func(of, version string) {
					mu.Lock()
					defer mu.Unlock()
					if made[request] == nil {
						made[request] = map[string]string{}
					}
					made[request][version] = of
				})
			}
			if n%7 == 0 {
				return errors.New("a conflict")
			}
			return nil
		})
		var running sync.WaitGroup
		for n := range writers {
			r := chance(uint64(n))
			running.Go(func() {
				for writing.Err() == nil {
					r.write(writing)
					time.Sleep(2 * time.Millisecond)
				}
			})
		}
		r := chance(1000)
		for range 150 {
			request := fmt.Sprint("request-", r.IntN(count))
			var now []func(ctx context.Context, from client.Reader) (map[string]string, error)
			for range r.IntN(4) {
				now = append(now, r.read())
			}
			mu.Lock()
			reads[request] = now
			mu.Unlock()
			k.queue.Add(request)
			time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
		}
		stopWriting()
		running.Wait()
		cuts.Store(false)
		for n := range count {
			request := fmt.Sprint("request-", n)
			Eventually(func(g Gomega) {
				mu.Lock()
				defer mu.Unlock()
				want := map[string]string{}
				for _, read := range reads[request] {
					got, err := read(ctx, api)
					g.Expect(err).NotTo(HaveOccurred())
					maps.Copy(want, got)
				}
				for key, version := range want { // what was read, and what the request has made of it since
					for results[request][key] != version {
						of, is := made[request][version]
						if !is {
							break
						}
						version = of
					}
					if want[key] = version; version == "" {
						delete(want, key)
					}
				}
				if reads[request] != nil {
					g.Expect(results[request]).To(Equal(want), request)
				}
			}).Should(Succeed())
		}
		k.stop()
		Eventually(requests.Open).Should(BeEmpty())
		Eventually(func() []string { return informersOf(c) }).Should(BeEmpty())
	},
		Entry("with a watch of each name", 1000, nil, false),
		Entry("with a watch of three names of a kind", 3, nil, false),
		Entry("with a watch of no name", 0, nil, false),
		Entry("with a watch of each name, in informers of client-go", 1000, newInformer(toolscache.NewSharedIndexInformer), false),
		Entry("with a watch of no name, in informers of client-go", 0, newInformer(toolscache.NewSharedIndexInformer), false),
		Entry("with a watch of each name, and without own writes", 1000, nil, true),
		Entry("with a watch of no name, and without own writes", 0, nil, true),
		Entry("with a watch of each name, in informers of client-go, and without own writes", 1000, newInformer(toolscache.NewSharedIndexInformer), true),
	)
})

// read returns a read of something by chance, which returns the versions of what it finds.
func (r *random) read() func(ctx context.Context, from client.Reader) (map[string]string, error) {
	obj, list := r.example()
	namespace, name, app := r.of(r.namespaces...), r.name(), r.of("web", "db")
	kind := fmt.Sprintf("%T %s", obj, obj.GetObjectKind().GroupVersionKind().Kind)
	if r.IntN(3) > 0 {
		return func(ctx context.Context, from client.Reader) (map[string]string, error) {
			into := obj.DeepCopyObject().(client.Object)
			err := from.Get(ctx, named(namespace, name), into)
			if err != nil {
				return nil, client.IgnoreNotFound(err)
			}
			return map[string]string{kind + namespace + name: into.GetResourceVersion()}, nil
		}
	}
	return func(ctx context.Context, from client.Reader) (map[string]string, error) {
		found, err := versions(ctx, from, list, lease.Scope{Namespace: namespace, Labels: selector("app=" + app)})
		all := map[string]string{}
		for key, version := range found {
			all[kind+app+key] = version
		}
		return all, err
	}
}

// writeOwn changes or creates an object that a reconcile may have read, and tells which version it has made of which.
func (r *random) writeOwn(ctx context.Context, own client.Client, made func(of, version string)) {
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.of(r.namespaces...), Name: r.name(), Labels: map[string]string{"app": r.of("web", "db")}}}
	if err := api.Get(ctx, client.ObjectKeyFromObject(obj), obj); apierrors.IsNotFound(err) {
		if own.Create(ctx, obj) == nil {
			made("", obj.ResourceVersion)
		}
		return
	}
	was := obj.DeepCopy()
	obj.Data = map[string]string{"own": fmt.Sprint(r.IntN(1000))}
	switch r.IntN(4) {
	case 0:
		_ = own.Patch(ctx, obj, client.MergeFrom(was)) // which may change what another has written meanwhile
	case 1:
		if own.Patch(ctx, obj, client.MergeFromWithOptions(was, client.MergeFromWithOptimisticLock{})) == nil {
			made(was.ResourceVersion, obj.ResourceVersion)
		}
	default:
		if own.Update(ctx, obj) == nil {
			made(was.ResourceVersion, obj.ResourceVersion)
		}
	}
}

// cutting ends watches at random times.
func cutting(next http.RoundTripper, cuts *atomic.Bool) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		if !req.URL.Query().Has("watch") || !cuts.Load() {
			return next.RoundTrip(req)
		}
		ctx, cancel := context.WithTimeout(req.Context(), time.Duration(rand.IntN(300))*time.Millisecond)
		response, err := next.RoundTrip(req.WithContext(ctx))
		if err != nil {
			cancel()
			return nil, err
		}
		response.Body = &cutBody{response.Body, cancel}
		return response, nil
	})
}

type cutBody struct {
	io.ReadCloser
	cancel func()
}

func (b *cutBody) Close() error {
	b.cancel()
	return b.ReadCloser.Close()
}
