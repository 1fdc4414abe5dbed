// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// as returns a client that acts as another user.
func as(name string, groups ...string) kubernetes.Interface {
	config := rest.CopyConfig(target.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: groups}
	return kubernetes.NewForConfigOrDie(config)
}

// grant lets a subject read ConfigMaps of a namespace, and returns when the server goes by it.
func grant(ctx context.Context, ns string, subject rbacv1.Subject, check func() error) {
	GinkgoHelper()
	rbac := target.kube.RbacV1()
	_, err := rbac.Roles(ns).Create(ctx, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"configmaps"}}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	_, err = rbac.RoleBindings(ns).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
		Subjects:   []rbacv1.Subject{subject},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	Eventually(check).WithContext(ctx).WithPolling(fast).Should(Succeed()) // the authorizer follows its objects with a delay
}

var _ = Describe("access", func() {
	It("is refused with a wrong credential, and to the anonymous", func(ctx SpecContext) {
		list := func(config *rest.Config) error {
			_, err := kubernetes.NewForConfigOrDie(config).CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
			return err
		}
		config := rest.AnonymousClientConfig(target.config)
		err := list(config)
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(ContainSubstring(`User "system:anonymous" cannot list resource "namespaces"`)))
		config.BearerToken = "wrong"
		err = list(config)
		Expect(apierrors.IsUnauthorized(err)).To(BeTrue(), "%v", err)
	}, SpecTimeout(patience))

	DescribeTable("of the anonymous", func(ctx SpecContext, path string, code int) {
		kube := kubernetes.NewForConfigOrDie(rest.AnonymousClientConfig(target.config))
		var got int
		kube.Discovery().RESTClient().Get().AbsPath(path).Do(ctx).StatusCode(&got)
		Expect(got).To(Equal(code))
	},
		Entry("to health", SpecTimeout(patience), "/healthz", 200),
		Entry("to life", SpecTimeout(patience), "/livez", 200),
		Entry("to readiness", SpecTimeout(patience), "/readyz", 200),
		Entry("to the version", SpecTimeout(patience), "/version", 200),
		Entry("to one check", SpecTimeout(patience), "/healthz/ping", 403),
		Entry("to metrics", SpecTimeout(patience), "/metrics", 403),
		Entry("to discovery", SpecTimeout(patience), "/api", 403),
	)

	It("of a user is what RBAC grants to the name", func(ctx SpecContext) {
		ns := newNamespace(ctx)
		user := as("jane")
		list := func() error {
			_, err := user.CoreV1().ConfigMaps(ns).List(ctx, metav1.ListOptions{})
			return err
		}
		Expect(apierrors.IsForbidden(list())).To(BeTrue())
		grant(ctx, ns, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "jane"}, list)
		_, err := user.CoreV1().ConfigMaps(ns).Create(ctx, configMap("one", "1"), metav1.CreateOptions{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		_, err = user.CoreV1().Secrets(ns).List(ctx, metav1.ListOptions{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		_, err = user.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		_, err = as("john").CoreV1().ConfigMaps(ns).List(ctx, metav1.ListOptions{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	}, SpecTimeout(patience))

	It("of a group and of a service account is what RBAC grants to them", func(ctx SpecContext) {
		for _, c := range []struct {
			subject rbacv1.Subject
			user    kubernetes.Interface
		}{
			{rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "readers"}, as("anybody", "readers")},
			{rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: "sa", Namespace: "default"}, as("system:serviceaccount:default:sa")},
		} {
			ns := newNamespace(ctx)
			grant(ctx, ns, c.subject, func() error {
				_, err := c.user.CoreV1().ConfigMaps(ns).List(ctx, metav1.ListOptions{})
				return err
			})
		}
	}, SpecTimeout(patience))

	It("to discovery is granted to everybody who is known", func(ctx SpecContext) {
		_, err := as("jane", "system:authenticated").Discovery().ServerGroups()
		Expect(err).NotTo(HaveOccurred())
		_, err = as("jane", "system:authenticated").CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	}, SpecTimeout(patience))

	It("of an added user is by a credential of its own", func(ctx SpecContext) {
		onlyOurs()
		config, err := target.env.AddUser("jane", "writers")
		Expect(err).NotTo(HaveOccurred())
		Expect(config.BearerToken).NotTo(Equal(target.config.BearerToken))
		Expect(config.CertData).NotTo(Equal(target.config.CertData))
		ns := newNamespace(ctx)
		user := kubernetes.NewForConfigOrDie(config)
		list := func() error {
			_, err := user.CoreV1().ConfigMaps(ns).List(ctx, metav1.ListOptions{})
			return err
		}
		Expect(apierrors.IsForbidden(list())).To(BeTrue())
		grant(ctx, ns, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "writers"}, list)
		_, err = target.env.AddUser("")
		Expect(err).To(MatchError(ContainSubstring("name is empty")))
	}, SpecTimeout(patience))
})

var _ = Describe("a namespace", func() {
	It("has to exist before something is created in it", func(ctx SpecContext) {
		_, err := target.kube.CoreV1().ConfigMaps("missing").Create(ctx, configMap("one", "1"), metav1.CreateOptions{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(ContainSubstring(`namespaces "missing" not found`)))
	}, SpecTimeout(patience))

	It("takes nothing new while it terminates", func(ctx SpecContext) {
		ns := newNamespace(ctx)
		_, err := target.kube.CoreV1().ConfigMaps(ns).Create(ctx, configMap("one", "1"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		w, err := target.kube.CoreV1().Namespaces().Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + ns})
		Expect(err).NotTo(HaveOccurred())
		defer w.Stop()
		Expect(target.kube.CoreV1().Namespaces().Delete(ctx, ns, metav1.DeleteOptions{})).To(Succeed())
		until(ctx, w, func(e watch.Event) bool {
			namespace, ok := e.Object.(*corev1.Namespace)
			return ok && namespace.Status.Phase == corev1.NamespaceTerminating
		})
		_, err = target.kube.CoreV1().ConfigMaps(ns).Create(ctx, configMap("two", "2"), metav1.CreateOptions{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		Expect(apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)).To(BeTrue(), "%v", err)
		_, err = target.kube.CoreV1().ConfigMaps(ns).Get(ctx, "one", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
	}, SpecTimeout(patience))

	It("of the system cannot be deleted", func(ctx SpecContext) {
		err := target.kube.CoreV1().Namespaces().Delete(ctx, "default", metav1.DeleteOptions{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	}, SpecTimeout(patience))
})
