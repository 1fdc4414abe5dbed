// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/tarn-dev/tarn/pkg/cache"
)

// users numbers the users of specs.
var users atomic.Int64

// newUser adds a user without rights.
func newUser() (name string, its *rest.Config) {
	GinkgoHelper()
	name = fmt.Sprintf("user-%d", users.Add(1))
	its, err := env.AddUser(name)
	Expect(err).NotTo(HaveOccurred())
	return name, its
}

// apply creates the role of a manifest, and binds it to a user.
func apply(ctx context.Context, manifest, user string) {
	GinkgoHelper()
	role := &unstructured.Unstructured{}
	Expect(yaml.Unmarshal([]byte(manifest), &role.Object)).To(Succeed())
	role.SetName(role.GetName() + "-" + user)
	create(ctx, role)
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: role.GetKind(), Name: role.GetName()}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
	if role.GetKind() == "ClusterRole" {
		create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role.GetName()}, RoleRef: ref, Subjects: subjects})
		return
	}
	create(ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: role.GetNamespace(), Name: role.GetName()}, RoleRef: ref, Subjects: subjects})
}

// untilItFails returns a context that ends when an informer with the returned handler has failed.
func untilItFails(ctx context.Context) (context.Context, toolscache.WatchErrorHandlerWithContext) {
	ctx, end := context.WithCancelCause(ctx)
	return ctx, func(context.Context, *toolscache.Reflector, error) { end(context.DeadlineExceeded) }
}

// reasonOf returns the NotSyncedError that err is.
func reasonOf(err error) *cache.NotSyncedError {
	GinkgoHelper()
	var reason *cache.NotSyncedError
	Expect(errors.As(err, &reason)).To(BeTrue(), "%T: %v", err, err)
	return reason
}

var _ = Describe("A cause", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) { namespace = newNamespace(ctx) })

	DescribeTable("forbidden has the rule to apply", func(ctx SpecContext, namespaced bool) {
		create(ctx, configMap(namespace, "one", "x"))
		name, its := newUser()
		opts := cache.Options{Mapper: fixedMapper()}
		if namespaced {
			opts.DefaultNamespaces = map[string]cache.Config{namespace: {}}
		}
		var short context.Context
		short, opts.DefaultWatchErrorHandler = untilItFails(ctx)
		c := started(ctx, on(cache.New, its), opts)
		begin := time.Now()
		err := c.List(short, &corev1.ConfigMapList{})
		Expect(apierrors.IsTimeout(err)).To(BeTrue(), "%v", err)
		reason := reasonOf(err)
		Expect(reason.GroupVersionKind).To(Equal(configMapKind))
		Expect(reason.Cause).To(Equal(cache.Forbidden))
		Expect(reason.Attempts).To(BeNumerically(">=", 1))
		Expect(reason.Since).To(BeTemporally(">=", begin))
		Expect(apierrors.IsForbidden(reason.Err)).To(BeTrue())
		if namespaced {
			Expect(reason.Namespace).To(Equal(namespace))
		}
		all := cache.NotSynced(c)
		Expect(all).To(HaveLen(1))
		Expect(all[0].Cause).To(Equal(cache.Forbidden))

		apply(ctx, reason.Manifest(), name)
		list := &corev1.ConfigMapList{}
		Expect(c.List(ctx, list, client.InNamespace(namespace))).To(Succeed(), "the informer goes on by itself")
		Expect(namesIn(list, namespace)).To(Equal([]string{namespace + "/one"}))
		Expect(cache.NotSynced(c)).To(BeEmpty())
	},
		Entry("in all namespaces", false),
		Entry("in one", true),
	)

	DescribeTable("forbidden binds the role to the user that was refused", func(ctx SpecContext, name func(string) string, namespaced bool) {
		create(ctx, configMap(namespace, "one", "x"))
		its, err := env.AddUser(name(namespace))
		Expect(err).NotTo(HaveOccurred())
		opts := cache.Options{Mapper: fixedMapper()}
		if namespaced {
			opts.DefaultNamespaces = map[string]cache.Config{namespace: {}}
		}
		var short context.Context
		short, opts.DefaultWatchErrorHandler = untilItFails(ctx)
		c := started(ctx, on(cache.New, its), opts)
		reason := reasonOf(c.List(short, &corev1.ConfigMapList{}))
		for document := range strings.SplitSeq(reason.Manifest(), "---\n") {
			obj := &unstructured.Unstructured{}
			Expect(yaml.UnmarshalStrict([]byte(document), &obj.Object)).To(Succeed())
			Expect(client.IgnoreAlreadyExists(api.Create(ctx, obj))).To(Succeed(), "%s", document) // others may have made the role
			DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(api.Delete(ctx, obj))).To(Succeed()) })
		}
		list := &corev1.ConfigMapList{}
		Expect(c.List(ctx, list, client.InNamespace(namespace))).To(Succeed(), "nothing but the manifest is applied")
		Expect(namesIn(list, namespace)).To(Equal([]string{namespace + "/one"}))
	},
		Entry("a user", func(unique string) string { return "jane-" + unique }, false),
		Entry("a user in one namespace", func(unique string) string { return "jane-" + unique }, true),
		Entry("a user with an odd name", func(unique string) string { return `https://issuer.example.com/50%#"jane": ` + unique }, true),
		Entry("a ServiceAccount", func(unique string) string { return "system:serviceaccount:" + unique + ":operator" }, false),
		Entry("a ServiceAccount in one namespace", func(unique string) string { return "system:serviceaccount:" + unique + ":operator" }, true),
	)

	It("prints the rule in one line of YAML too, which a log keeps", func(ctx SpecContext) {
		_, its := newUser()
		short, failed := untilItFails(ctx)
		c := started(ctx, on(cache.New, its), cache.Options{Mapper: fixedMapper(), DefaultWatchErrorHandler: failed})
		reason := reasonOf(c.List(short, &corev1.ConfigMapList{}))
		_, line, found := cutLast(reason.Error(), "; grant ")
		Expect(found).To(BeTrue())
		var inLine, block map[string]any
		Expect(yaml.Unmarshal([]byte(line), &inLine)).To(Succeed())
		Expect(yaml.Unmarshal([]byte(reason.Manifest()), &block)).To(Succeed())
		Expect(inLine).To(Equal(block))
	})

	DescribeTable("of a cluster that cannot be asked", func(ctx SpecContext, change func(*rest.Config), want cache.Cause) {
		its := rest.CopyConfig(cfg)
		change(its)
		short, failed := untilItFails(ctx)
		c := started(ctx, on(cache.New, its), cache.Options{Mapper: fixedMapper(), DefaultWatchErrorHandler: failed})
		reason := reasonOf(c.List(short, &corev1.ConfigMapList{}))
		Expect(reason.Cause).To(Equal(want), "%v", reason)
		Expect(reason.Cause.Mends()).To(BeFalse())
	},
		Entry("unauthorized", func(c *rest.Config) {
			c.BearerToken, c.BearerTokenFile, c.CertData, c.KeyData, c.CertFile, c.KeyFile = "nobody's", "", nil, nil, "", ""
		}, cache.Unauthorized),
		Entry("TLS", func(c *rest.Config) { c.CAData, c.CAFile = nil, "" }, cache.TLS),
	)

	It("kind not served is told at once", func(ctx SpecContext) {
		c := started(ctx, cache.New, cache.Options{})
		err := c.Get(ctx, client.ObjectKey{Name: "one"}, untyped(&unstructured.Unstructured{}, "v1", "Widget"))
		Expect(meta.IsNoMatchError(err)).To(BeTrue())
		Expect(apierrors.IsTimeout(err)).To(BeFalse(), "nobody has waited")
		Expect(reasonOf(err).Cause).To(Equal(cache.NotServed))
	})

	It("object cannot be decoded has its key", func(ctx SpecContext) {
		create(ctx, configMap(namespace, "one", "fits"), configMap(namespace, "two", "odd"))
		json, opts, _ := watchesOf(namespace, strictScheme())
		short, failed := untilItFails(ctx)
		opts.DefaultWatchErrorHandler = failed
		c := started(ctx, on(cache.New, json), opts)
		_, err := c.GetInformer(short, &strict{})
		reason := reasonOf(err)
		Expect(reason.Cause).To(Equal(cache.Undecodable))
		Expect(reason.Object).To(Equal(client.ObjectKey{Namespace: namespace, Name: "two"}))
	})

	Describe("transform failed", func() {
		var broken atomic.Bool
		transform := func(obj any) (any, error) {
			if broken.Load() && obj.(client.Object).GetName() == "one" {
				return nil, errors.New("boom")
			}
			return obj, nil
		}
		options := func(bookmarks bool) cache.Options {
			return cache.Options{
				DefaultNamespaces: map[string]cache.Config{namespace: {}}, DefaultTransform: transform, DefaultEnableWatchBookmarks: &bookmarks,
			}
		}
		key := func(name string) client.ObjectKey { return client.ObjectKey{Namespace: namespace, Name: name} }
		BeforeEach(func(ctx SpecContext) {
			broken.Store(true)
			create(ctx, configMap(namespace, "one", "x"), configMap(namespace, "two", "y"))
		})

		It("is told in place of NotFound, until the object is received again", func(ctx SpecContext) {
			c := started(ctx, cache.New, options(true))
			list := &corev1.ConfigMapList{}
			Expect(c.List(ctx, list)).To(Succeed(), "as in controller-runtime")
			Expect(namesIn(list, namespace)).To(Equal([]string{namespace + "/two"}))
			err := c.Get(ctx, key("one"), &corev1.ConfigMap{})
			Expect(apierrors.IsNotFound(err)).To(BeFalse(), "%v", err)
			reason := reasonOf(err)
			Expect(reason.Cause).To(Equal(cache.TransformFailed))
			Expect(reason.Object).To(Equal(key("one")))
			Expect(reason).To(MatchError(ContainSubstring("boom")))
			Expect(apierrors.IsNotFound(c.Get(ctx, key("three"), &corev1.ConfigMap{}))).To(BeTrue())
			Expect(cache.NotSynced(c)).To(HaveLen(1))

			broken.Store(false)
			Expect(api.Update(ctx, configMap(namespace, "one", "z"))).To(Succeed())
			Eventually(func() error { return c.Get(ctx, key("one"), &corev1.ConfigMap{}) }).Should(Succeed())
			Expect(cache.NotSynced(c)).To(BeEmpty())
		})

		It("does not keep an object that is deleted", func(ctx SpecContext) {
			broken.Store(false)
			c := started(ctx, cache.New, options(true))
			informer, err := c.GetInformer(ctx, &corev1.ConfigMap{})
			Expect(err).NotTo(HaveOccurred())
			deleted := make(chan any, 1)
			_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{DeleteFunc: func(obj any) { deleted <- obj }})
			Expect(err).NotTo(HaveOccurred())
			broken.Store(true)
			Expect(api.Delete(ctx, configMap(namespace, "one", ""))).To(Succeed())
			var gone any
			Eventually(deleted).Should(Receive(&gone))
			Expect(gone).To(BeAssignableToTypeOf(toolscache.DeletedFinalStateUnknown{}))
			Expect(apierrors.IsNotFound(c.Get(ctx, key("one"), &corev1.ConfigMap{}))).To(BeTrue())
		})

		It("keeps a list that is not streamed from being complete", func(ctx SpecContext) {
			short, failed := untilItFails(ctx)
			opts := options(false)
			opts.DefaultWatchErrorHandler = failed
			c := started(ctx, cache.New, opts)
			reason := reasonOf(c.List(short, &corev1.ConfigMapList{}))
			Expect(reason.Cause).To(Equal(cache.TransformFailed))
			Expect(reason.Object).To(Equal(key("one")))
		})

		DescribeTable("is the answer to every read of a kind that does not wait", func(ctx SpecContext, policy cache.FailurePolicy) {
			c, err := cache.With(cache.Tuning{TuningByObject: cache.TuningByObject{OnFailure: policy}})(cfg, options(true))
			Expect(err).NotTo(HaveOccurred())
			running, stop := context.WithCancel(ctx)
			ended := make(chan error, 1)
			go func() { ended <- c.Start(running) }()
			Expect(c.WaitForCacheSync(ctx)).To(BeTrue())
			_, err = c.GetInformer(ctx, &corev1.ConfigMap{}, cache.BlockUntilSynced(false))
			Expect(err).NotTo(HaveOccurred())
			Eventually(func() error { return c.List(ctx, &corev1.ConfigMapList{}) }).Should(MatchError(ContainSubstring("lacks 1 object, because transform failed")))
			if policy == cache.FailFast {
				Eventually(ended).Should(Receive(MatchError(ContainSubstring("boom"))))
				stop()
				return
			}
			stop()
			Eventually(ended).Should(Receive(Succeed()))
		},
			Entry("but isolates", cache.Isolate),
			Entry("but fails", cache.FailFast),
		)
	})

	It("is refused as a policy if it is none", func() {
		_, err := cache.With(cache.Tuning{TuningByObject: cache.TuningByObject{OnFailure: "Panic"}})(cfg, cache.Options{})
		Expect(err).To(MatchError(ContainSubstring(`OnFailure is "Panic"; use Wait, FailFast or Isolate`)))
	})

	It("too many requests is told while client-go tries again in silence", func(ctx SpecContext) {
		short, cancel := context.WithCancel(ctx)
		transport, err := rest.TransportFor(cfg)
		Expect(err).NotTo(HaveOccurred())
		c := started(ctx, cache.New, cache.Options{Mapper: fixedMapper(), HTTPClient: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			defer time.AfterFunc(100*time.Millisecond, cancel)
			response, err := transport.RoundTrip(r)
			if err == nil {
				response.StatusCode, response.Status = http.StatusTooManyRequests, "429 Too Many Requests"
			}
			return response, err
		})}})
		Expect(reasonOf(c.List(short, &corev1.ConfigMapList{})).Cause).To(Equal(cache.TooManyRequests))
	})
})

// cutLast cuts s around the last separator.
func cutLast(s, separator string) (before, after string, found bool) {
	if n := strings.LastIndex(s, separator); n >= 0 {
		return s[:n], s[n+len(separator):], true
	}
	return s, "", false
}
