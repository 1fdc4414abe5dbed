// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"context"
	"fmt"
	"slices"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tarn-dev/tarn/envtest"
)

// consistentReads notes what a server asks etcd for while it answers requests that write: consistent lists, for which a watch cache
// waits until its watch has come so far, and consistent gets. It is safe for concurrent use.
type consistentReads struct {
	mu    sync.Mutex
	reads []string // guarded by mu
}

func (c *consistentReads) note(ctx context.Context, verb string, resource schema.GroupResource, version string) {
	info, ok := request.RequestInfoFrom(ctx)
	if version != "" || ok && slices.Contains([]string{"get", "list", "watch"}, info.Verb) { // or the client has asked for it
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads = append(c.reads, verb+" "+resource.String())
}

// take returns what was noted since the last call.
func (c *consistentReads) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	reads := c.reads
	c.reads = nil
	return reads
}

// decorate notes the reads of all stores.
func (c *consistentReads) decorate(m storeMaker) (storage.Interface, factory.DestroyFunc, error) {
	store, destroy, err := m.make(m.keyFunc)
	return &readStore{store, m.resource, c}, destroy, err
}

// readStore notes its reads.
type readStore struct {
	storage.Interface
	resource schema.GroupResource
	noted    *consistentReads
}

func (s *readStore) Get(ctx context.Context, key string, opts storage.GetOptions, into runtime.Object) error {
	s.noted.note(ctx, "get", s.resource, opts.ResourceVersion)
	return s.Interface.Get(ctx, key, opts, into)
}

func (s *readStore) GetList(ctx context.Context, key string, opts storage.ListOptions, into runtime.Object) error {
	s.noted.note(ctx, "list", s.resource, opts.ResourceVersion)
	return s.Interface.GetList(ctx, key, opts, into)
}

var _ = Describe("what a server reads for itself while it answers a request", Ordered, ContinueOnFailure, func() {
	noted := &consistentReads{}
	var config *rest.Config
	BeforeAll(func() {
		onlyOurs()
		decorate, err := envtest.DecoratorNamed("")
		Expect(err).NotTo(HaveOccurred())
		config = envtest.StartWith(GinkgoTB(), envtest.Options{
			StorageDecorator: decorated(decorate, noted.decorate), EnableAdmissionPlugins: []string{ownerPlugin},
		}).Config()
	})
	namespace := func(ctx context.Context) string {
		GinkgoHelper()
		ns, err := kubernetes.NewForConfigOrDie(config).CoreV1().Namespaces().Create(ctx,
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "reads-"}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		noted.take()
		return ns.Name
	}

	for _, s := range samples() {
		It(fmt.Sprintf("comes from the watch cache: %s.%s", s.resource.Resource, s.resource.GroupVersion()), func(ctx SpecContext) {
			ns := namespace(ctx)
			obj, err := s.in(ns)
			Expect(err).NotTo(HaveOccurred())
			objects := s.client(dynamic.NewForConfigOrDie(config), ns)
			_, err = objects.Create(ctx, obj, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(noted.take()).To(BeEmpty(), "create")
			_, err = objects.Patch(ctx, obj.GetName(), types.MergePatchType, []byte(s.change), metav1.PatchOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(noted.take()).To(BeEmpty(), "update")
			if s.status == "" {
				return
			}
			_, err = objects.Patch(ctx, obj.GetName(), types.MergePatchType, []byte(s.status), metav1.PatchOptions{}, "status")
			Expect(err).NotTo(HaveOccurred())
			Expect(noted.take()).To(BeEmpty(), "update of the status")
		}, SpecTimeout(patience))
	}

	It("comes from the watch cache where there are limits, quotas, budgets and a service account", func(ctx SpecContext) {
		ns := namespace(ctx)
		admin := kubernetes.NewForConfigOrDie(config)
		_, err := admin.CoreV1().LimitRanges(ns).Create(ctx, &corev1.LimitRange{
			ObjectMeta: metav1.ObjectMeta{Name: "limits"},
			Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
				Type: corev1.LimitTypeContainer, Default: corev1.ResourceList{corev1.ResourceCPU: quantity.MustParse("1")},
			}}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		hard := corev1.ResourceList{corev1.ResourcePods: quantity.MustParse("5")}
		quota, err := admin.CoreV1().ResourceQuotas(ns).Create(ctx,
			&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "quota"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		quota.Status = corev1.ResourceQuotaStatus{Hard: hard, Used: corev1.ResourceList{corev1.ResourcePods: quantity.MustParse("0")}}
		_, err = admin.CoreV1().ResourceQuotas(ns).UpdateStatus(ctx, quota, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		user := kubernetes.NewForConfigOrDie(asAccount(ctx, config, ns))
		noted.take()

		made, err := user.CoreV1().Pods(ns).Create(ctx, pod("one"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(made.Spec.Containers[0].Resources.Limits).To(HaveKey(corev1.ResourceCPU), "the limits are in force")
		Expect(noted.take()).To(BeEmpty())
		quota, err = admin.CoreV1().ResourceQuotas(ns).Get(ctx, "quota", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(quota.Status.Used.Pods().Value()).To(BeEquivalentTo(1), "the quota is")

		noted.take()
		Expect(user.PolicyV1().Evictions(ns).Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "one", Namespace: ns}})).To(Succeed())
		Expect(noted.take()).NotTo(ContainElement(HavePrefix("list")))
	}, SpecTimeout(patience))
})

// asAccount returns a configuration with the token of a new service account, which may do everything.
func asAccount(ctx context.Context, admin *rest.Config, namespace string) *rest.Config {
	GinkgoHelper()
	kube := kubernetes.NewForConfigOrDie(admin)
	_, err := kube.CoreV1().ServiceAccounts(namespace).Create(ctx,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	_, err = kube.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		RoleRef:    rbacv1.RoleRef{Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "robot"}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	token, err := kube.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, "robot", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	config := rest.AnonymousClientConfig(admin)
	config.BearerToken = token.Status.Token
	Eventually(ctx, func() error {
		_, err := kubernetes.NewForConfigOrDie(config).CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		return err
	}).WithPolling(fast).Should(Succeed())
	return config
}
