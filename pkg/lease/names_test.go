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
		Eventually(requests.Open, idle+time.Second).Should(BeEmpty())
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
