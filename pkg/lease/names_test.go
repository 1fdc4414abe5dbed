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
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/cache"
	"github.com/tarn-dev/tarn/pkg/lease"
)

var _ = Describe("References to many names", func() {
	const most, count = 3, 8
	var (
		namespace string
		values    sync.Map // what each request has read
	)
	BeforeEach(func(ctx SpecContext) {
		namespace = newNamespace(ctx)
		values.Clear()
		for i := range count + 2 { // two are not referenced
			create(ctx, secretOf(namespace, i, "first"))
		}
	})
	name := func(i int) string { return fmt.Sprint("secret-", i) }
	all := func() (names []string) {
		for i := range count {
			names = append(names, name(i))
		}
		return names
	}
	set := func(refs *lease.References[string]) { refs.SetNameWatches(most) }
	// read reads the Secret whose name the request has.
	read := func(ctx context.Context, refs client.Reader, request string) error {
		secret := &corev1.Secret{}
		err := refs.Get(ctx, named(namespace, request), secret)
		if err == nil {
			values.Store(request, string(secret.Data["value"]))
		} else {
			values.Store(request, "none")
		}
		return client.IgnoreNotFound(err)
	}
	value := func(i int) func() any {
		return func() any {
			value, _ := values.Load(name(i))
			return value
		}
	}

	It("watch the metadata once, and read what is referenced and has changed", func(ctx SpecContext) {
		c, requests := started(ctx, cache.Tuning{}, cache.Options{})
		k := runWith(c, set, 2, read)
		for i := range count {
			k.queue.Add(name(i))
			Eventually(value(i)).Should(Equal("first"))
		}
		Expect(requests.Open()).To(HaveLen(most+1), "some names, and the metadata of all")
		Expect(requests.Gets()).To(Equal(all()[most:]), "each was read once")

		for i := range count {
			update(ctx, secretOf(namespace, i, "second"))
			Eventually(value(i)).Should(Equal("second"))
		}
		update(ctx, secretOf(namespace, count, "second")) // not referenced
		Expect(api.Delete(ctx, secretOf(namespace, most, ""))).To(Succeed())
		Eventually(value(most)).Should(Equal("none"))
		create(ctx, secretOf(namespace, most, "again"))
		Eventually(value(most)).Should(Equal("again"))
		Expect(requests.Gets()).To(Equal(slices.Sorted(slices.Values(append(all()[most:], name(most))))), "once for each change")
		for i := range count {
			before := k.Calls(name(i))()
			k.queue.Add(name(i))
			Eventually(k.Calls(name(i))).Should(BeNumerically(">", before))
		}
		Expect(requests.Gets()).To(BeEmpty(), "a read of what has not changed")
		k.stop()
		Eventually(requests.Open).Should(BeEmpty())
	})

	It("have no more label selectors watched by themselves than names, and lists of others by the whole kind", func(ctx SpecContext) {
		for i := range count {
			create(ctx, configMap(namespace, name(i), name(i)))
		}
		c, requests := started(ctx, cache.Tuning{}, cache.Options{})
		k := runWith(c, set, 1, func(ctx context.Context, refs client.Reader, request string) error {
			list := &corev1.ConfigMapList{}
			err := refs.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{"app": request})
			found := ""
			for _, one := range list.Items {
				found += one.Name + " "
			}
			values.Store(request, found)
			return err
		})
		for i := range count {
			k.queue.Add(name(i))
			Eventually(value(i)).Should(Equal(name(i) + " "))
		}
		Expect(requests.Open()).To(HaveLen(most+1), "some selectors, and the whole kind")
		Expect(requests.Open()).To(ContainElement("/api/v1/configmaps?"))
		before := k.Calls(name(0))()
		for _, i := range []int{0, count - 1} {
			Expect(api.Delete(ctx, configMap(namespace, name(i), ""))).To(Succeed())
			Eventually(value(i)).Should(BeEmpty())
		}
		Expect(k.Calls(name(0))()).To(Equal(before+1), "another list has changed")
		k.stop()
		Eventually(requests.Open).Should(BeEmpty())
	})

	It("are counted with their leases, informers and GETs", func(ctx SpecContext) {
		registry := prometheus.NewRegistry()
		c, _ := started(ctx, cache.Tuning{Registerer: registry, Name: namespace}, cache.Options{})
		k := runWith(c, set, 1, read)
		metrics := func() map[string]float64 {
			GinkgoHelper()
			families, err := registry.Gather()
			Expect(err).NotTo(HaveOccurred())
			values := map[string]float64{}
			for _, f := range families {
				for _, m := range f.GetMetric() {
					name, _ := strings.CutPrefix(f.GetName(), "tarn_cache_")
					for _, l := range m.GetLabel() {
						if l.GetName() == "scope" {
							name += " " + l.GetValue()
						}
					}
					values[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
				}
			}
			return values
		}
		Expect(metrics()).To(BeEmpty(), "nobody has a lease")
		for i := range most + 2 {
			k.queue.Add(name(i))
			Eventually(value(i)).Should(Equal("first"))
		}
		Expect(metrics()).To(And(HaveKeyWithValue("leases", most+2.0), HaveKeyWithValue("lease_informers name", float64(most)), HaveKeyWithValue("lease_informers wider", 1.0),
			HaveKeyWithValue("reference_gets_total", 2.0), HaveKeyWithValue("wake_ups_total", 0.0)))
		update(ctx, secretOf(namespace, 0, "second"))
		update(ctx, secretOf(namespace, most, "second"))
		Eventually(metrics).Should(And(HaveKeyWithValue("wake_ups_total", 2.0), HaveKeyWithValue("reference_gets_total", 3.0)))
		k.stop()
		Eventually(metrics).ShouldNot(HaveKey(HavePrefix("lease")), "nothing is held, and the idle time is over")
	})

	It("take an informer of the metadata that is there, also for other representations", func(ctx SpecContext) {
		c, requests := started(ctx, cache.Tuning{}, cache.Options{})
		head := &metav1.PartialObjectMetadata{}
		head.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		_, err := c.GetInformer(ctx, head)
		Expect(err).NotTo(HaveOccurred())
		k := run(c, 1, func(ctx context.Context, refs client.Reader, request string) error {
			u := &unstructured.Unstructured{}
			u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
			if err := refs.Get(ctx, named(namespace, request), u); err != nil {
				return err
			}
			if u.GetKind() != "Secret" {
				return fmt.Errorf("the kind is %q", u.GetKind())
			}
			if err := refs.Get(ctx, named(namespace, request), head.DeepCopy()); err != nil {
				return err
			}
			return read(ctx, refs, request)
		})
		k.queue.Add(name(0))
		Eventually(value(0)).Should(Equal("first"))
		update(ctx, secretOf(namespace, 0, "second"))
		Eventually(value(0)).Should(Equal("second"))
		Expect(requests.Open()).To(Equal([]string{"/api/v1/secrets?"}))
		Expect(requests.Gets()).To(HaveLen(4), "each representation, before and after")
	})

	It("watch the metadata of the namespace if the cache does not hold all", func(ctx SpecContext) {
		c, requests := started(ctx, cache.Tuning{}, cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}})
		k := runWith(c, func(refs *lease.References[string]) { refs.SetNameWatches(0) }, 1, read)
		k.queue.Add(name(0))
		Eventually(value(0)).Should(Equal("first"))
		Expect(requests.Open()).To(Equal([]string{"/api/v1/namespaces/" + namespace + "/secrets?"}))
	})

	It("have the settings of their namespace, whatever informers there are", func(ctx SpecContext) {
		other := newNamespace(ctx)
		by := func(who string) cache.Config {
			return cache.Config{Transform: func(obj any) (any, error) {
				obj.(client.Object).SetAnnotations(map[string]string{"by": who})
				return obj, nil
			}}
		}
		create(ctx, configMap(namespace, "listed", "web"))
		create(ctx, configMap(other, "listed", "web"))
		c, _ := started(ctx, cache.Tuning{}, cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: by("own"), cache.AllNamespaces: by("all")}})
		k := runWith(c, func(refs *lease.References[string]) { refs.SetNameWatches(0) }, 1, func(ctx context.Context, refs client.Reader, request string) error {
			list := &corev1.ConfigMapList{}
			if err := refs.List(ctx, list, client.InNamespace(request), client.MatchingLabels{"app": "web"}); err != nil {
				return err
			}
			if len(list.Items) > 0 {
				values.Store(request, list.Items[0].Annotations["by"])
			}
			return nil
		})
		for _, of := range []struct{ namespace, by string }{{other, "all"}, {namespace, "own"}, {other, "all"}} {
			values.Clear()
			k.queue.Add(of.namespace)
			Eventually(func() any {
				by, _ := values.Load(of.namespace)
				return by
			}).Should(Equal(of.by))
		}
	})

	It("read the fields of the kind, also of an object that is read from the server", func(ctx SpecContext) {
		fields := cache.Tuning{ByObject: map[client.Object]cache.TuningByObject{&corev1.Secret{}: {Fields: []string{"data"}}}}
		c, _ := started(ctx, fields, cache.Options{})
		read := make(chan *corev1.Secret, 10)
		k := runWith(c, func(refs *lease.References[string]) { refs.SetNameWatches(0) }, 1, func(ctx context.Context, refs client.Reader, _ string) error {
			secret := &corev1.Secret{}
			err := refs.Get(ctx, named(namespace, name(0)), secret)
			read <- secret
			return err
		})
		k.queue.Add("r")
		var secret *corev1.Secret
		Eventually(read).Should(Receive(&secret))
		Expect(secret.Data).To(HaveKey("value"))
		Expect(secret.Type).To(BeEmpty())
	})

	It("share a GET, also of other controllers, and keep no copy longer than a lease", func(ctx SpecContext) {
		c, requests := started(ctx, cache.Tuning{LeaseIdleTime: idle}, cache.Options{})
		none := func(refs *lease.References[string]) { refs.SetNameWatches(0) }
		var all []*controller
		for range 3 {
			all = append(all, runWith(c, none, 1, read))
		}
		for _, k := range all {
			k.queue.Add(name(0))
			Eventually(k.Calls(name(0))).Should(Equal(1))
		}
		Expect(requests.Gets()).To(Equal([]string{name(0)}))
		update(ctx, secretOf(namespace, 0, "second"))
		for _, k := range all {
			Eventually(k.Calls(name(0))).Should(BeNumerically(">", 1))
		}
		Eventually(value(0)).Should(Equal("second"))
		Expect(requests.Gets()).To(Equal([]string{name(0)}))
		for _, k := range all {
			k.stop()
		}
		Eventually(func() []string { return informersOf(c) }).Should(BeEmpty())
	})

	It("watch metadata also where all representations of a kind share one watch", func(ctx SpecContext) {
		its := rest.CopyConfig(cfg)
		var whole atomic.Bool
		its.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				if strings.HasSuffix(r.URL.Path, "/secrets") && !strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata") {
					whole.Store(true)
				}
				return next.RoundTrip(r)
			})
		})
		c, requests := newCache(its, cache.Tuning{TuningByObject: cache.TuningByObject{Storage: cache.OneWatch}}, cache.Options{})
		start(c)
		k := runWith(c, func(refs *lease.References[string]) { refs.SetNameWatches(0) }, 1, read)
		k.queue.Add(name(0))
		Eventually(value(0)).Should(Equal("first"))
		Expect(requests.Gets()).To(Equal([]string{name(0)}))
		update(ctx, secretOf(namespace, 0, "second"))
		Eventually(value(0)).Should(Equal("second"))
		Expect(whole.Load()).To(BeFalse())
	})

	It("try another informer if that of more names is forbidden", func(ctx SpecContext) {
		user := "more-" + namespace
		its, err := env.AddUser(user)
		Expect(err).NotTo(HaveOccurred())
		permit(ctx, namespace, user, []string{"list", "watch"}, all()...)
		c, _ := newCache(its, cache.Tuning{}, cache.Options{})
		start(c)
		var gone atomic.Bool
		k := runWith(c, set, 1, func(ctx context.Context, refs client.Reader, request string) error {
			if gone.Load() && request != name(most) {
				return nil
			}
			return read(ctx, refs, request)
		})
		for i := range most {
			k.queue.Add(name(i))
			Eventually(value(i)).WithTimeout(time.Minute).Should(Equal("first")) // the server learns of a role by a watch
		}
		k.queue.Add(name(most))
		Eventually(value(most)).Should(Equal("none"), "there is no right to the metadata")
		gone.Store(true)
		for i := range most {
			k.queue.Add(name(i))
		}
		Eventually(value(most)).Should(Equal("first"), "there is room for a watch of the name")
	})

	It("need a right to these names alone, and ask for nothing that is forbidden", func(ctx SpecContext) {
		const many = 50
		for i := count + 2; i < many; i++ {
			create(ctx, secretOf(namespace, i, "first"))
		}
		create(ctx, secretOf(namespace, many, "not permitted"))
		var names []string
		for i := range many {
			names = append(names, name(i))
		}
		user := "fifty-" + namespace
		its, err := env.AddUser(user)
		Expect(err).NotTo(HaveOccurred())
		permit(ctx, namespace, user, []string{"list", "watch"}, names...)
		reader, err := client.New(its, client.Options{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() error { // the server learns of a role by a watch
			return reader.List(ctx, &corev1.SecretList{}, client.InNamespace(namespace), client.MatchingFields{"metadata.name": name(many - 1)})
		}).WithTimeout(time.Minute).Should(Succeed())
		var forbidden atomic.Int64
		its.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				response, err := next.RoundTrip(r)
				if err == nil && response.StatusCode == http.StatusForbidden {
					forbidden.Add(1)
				}
				return response, err
			})
		})
		c, requests := newCache(its, cache.Tuning{}, cache.Options{})
		start(c)
		k := run(c, 4, read)
		for i := range many {
			k.queue.Add(name(i))
		}
		for i := range many {
			Eventually(value(i)).Should(Equal("first"))
		}
		update(ctx, secretOf(namespace, many-1, "second"))
		Eventually(value(many - 1)).Should(Equal("second"))
		Expect(requests.Open()).To(HaveLen(many))
		Expect(requests.Gets()).To(BeEmpty())
		Expect(forbidden.Load()).To(BeZero())
	})

	It("say what may not be listed", func(ctx SpecContext) {
		its, err := env.AddUser("names-" + namespace)
		Expect(err).NotTo(HaveOccurred())
		c, _ := newCache(its, cache.Tuning{}, cache.Options{})
		start(c)
		errs := make(chan error, 100)
		k := runWith(c, func(refs *lease.References[string]) { refs.SetNameWatches(0) }, 1, func(ctx context.Context, refs client.Reader, request string) error {
			err := refs.Get(ctx, named(namespace, request), &corev1.Secret{})
			errs <- err
			return nil
		})
		k.queue.Add(name(0))
		Eventually(errs).Should(Receive(MatchError(And(
			ContainSubstring("forbidden"), ContainSubstring("kind: ClusterRole"), ContainSubstring("References.SetNameWatches")))))
	})
})

func secretOf(namespace string, i int, value string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("secret-", i)}, Data: map[string][]byte{"value": []byte(value)},
	}
}

func update(ctx context.Context, obj client.Object) {
	GinkgoHelper()
	Expect(api.Update(ctx, obj)).To(Succeed())
}
