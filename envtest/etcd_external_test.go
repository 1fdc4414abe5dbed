// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"context"
	"crypto/x509"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/tarn-dev/tarn/envtest"
)

var _ = Describe("An etcd that others run", func() {
	BeforeEach(onlyOurs)

	start := func(ctx context.Context, etcd *envtest.ExternalEtcd, change func(*envtest.Options)) *envtest.Environment {
		GinkgoHelper()
		opts := envtest.Options{Etcd: etcd}
		if change != nil {
			change(&opts)
		}
		env := envtest.New(opts)
		Expect(env.Start(ctx)).To(Succeed())
		DeferCleanup(func() { Expect(env.Stop()).To(Succeed()) })
		return env
	}
	kube := func(env *envtest.Environment) kubernetes.Interface {
		GinkgoHelper()
		client, err := kubernetes.NewForConfig(env.Config())
		Expect(err).NotTo(HaveOccurred())
		return client
	}

	It("keeps what is stored when a server stops, and the next one goes on with it", func(ctx SpecContext) {
		cluster := startCluster(GinkgoTB(), 1, nil)
		etcd := &envtest.ExternalEtcd{Servers: cluster.servers()}
		const group = "external.example.com"
		one := start(ctx, etcd, func(opts *envtest.Options) { opts.CRDs = append(opts.CRDs, widgetCRD(group)) })
		widgets := func(env *envtest.Environment) dynamic.ResourceInterface {
			return dynamic.NewForConfigOrDie(env.Config()).Resource(widgetsOf(group)).Namespace(metav1.NamespaceDefault)
		}
		made, err := widgets(one).Create(ctx, widget(group, "kept", 2), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = one.Snapshot(ctx)
		Expect(err).To(MatchError(envtest.ErrSharedState))
		Expect(one.Reset(ctx)).To(MatchError(envtest.ErrSharedState))
		Expect(one.Restore(ctx, &envtest.Snapshot{})).To(MatchError(envtest.ErrForeignSnapshot))
		for _, err := range []error{one.StopEtcd(ctx), one.StartEtcd(ctx), one.CompactEtcd(ctx, 0)} {
			Expect(err).To(MatchError(ContainSubstring("the one of Options.Etcd, which the environment does not run")))
		}
		Expect(one.Stop()).To(Succeed())

		two := start(ctx, etcd, nil)
		Eventually(func(g Gomega) { // until the server has read the definition
			g.Expect(widgets(two).Get(ctx, "kept", metav1.GetOptions{})).To(Equal(made))
		}).WithTimeout(patience).Should(Succeed())
	})

	It("has servers with different prefixes that know nothing of each other", func(ctx SpecContext) {
		cluster := startCluster(GinkgoTB(), 1, nil)
		one := start(ctx, &envtest.ExternalEtcd{Servers: cluster.servers()}, nil)
		two := start(ctx, &envtest.ExternalEtcd{Servers: cluster.servers(), Prefix: "/another"}, nil)
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}
		_, err := kube(one).CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(ctx, object, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = kube(two).CoreV1().ConfigMaps(metav1.NamespaceDefault).Get(ctx, "mine", metav1.GetOptions{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)

		keys, err := cluster.client(GinkgoTB(), clientv3.Config{}).Get(ctx, "", clientv3.WithPrefix(), clientv3.WithKeysOnly())
		Expect(err).NotTo(HaveOccurred())
		for _, kv := range keys.Kvs {
			Expect(string(kv.Key)).To(Or(HavePrefix("/registry/"), HavePrefix("/another/"), Equal("compact_rev_key")))
		}
	})

	It("is reached with certificates", func(ctx SpecContext) {
		folder := GinkgoT().TempDir()
		info, err := transport.SelfCert(zap.NewNop(), folder, []string{"127.0.0.1:0"}, 1, x509.ExtKeyUsageClientAuth)
		Expect(err).NotTo(HaveOccurred())
		info.TrustedCAFile, info.ClientCertAuth = info.CertFile, true
		cluster := startCluster(GinkgoTB(), 1, func(config *embed.Config) {
			config.ListenClientUrls[0].Scheme, config.AdvertiseClientUrls[0].Scheme = "https", "https"
			config.ClientTLSInfo = info
		})
		etcd := &envtest.ExternalEtcd{Servers: cluster.servers(), CAFile: info.CertFile, CertFile: info.CertFile, KeyFile: info.KeyFile}
		soon, cancel := context.WithTimeout(ctx, patience/20)
		defer cancel()
		stranger := envtest.New(envtest.Options{Etcd: &envtest.ExternalEtcd{Servers: cluster.servers()}})
		Expect(stranger.Start(soon)).To(MatchError(ContainSubstring("x509: ")))

		_, err = kube(start(ctx, etcd, nil)).CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
	})

	It("is asked by /readyz", func(ctx SpecContext) {
		cluster := startCluster(GinkgoTB(), 1, nil)
		env := start(ctx, &envtest.ExternalEtcd{Servers: cluster.servers()}, nil)
		ready := func() error {
			return kube(env).Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
		}
		Expect(ready()).To(Succeed())
		cluster.members[0].kill()
		Expect(ready()).NotTo(Succeed())
		Expect(cluster.members[0].start()).To(Succeed())
		Eventually(ready).WithTimeout(patience).Should(Succeed())
	})

	DescribeTable("is refused before Start does anything", func(ctx SpecContext, etcd envtest.ExternalEtcd, says string) {
		Expect(envtest.New(envtest.Options{Etcd: &etcd}).Start(ctx)).To(MatchError(ContainSubstring(says)))
	},
		Entry("without members", envtest.ExternalEtcd{}, "Etcd.Servers is empty"),
		Entry("without a scheme", envtest.ExternalEtcd{Servers: []string{"127.0.0.1:2379"}}, `Etcd.Servers[0] is "127.0.0.1:2379"`),
		Entry("with a certificate without its key", envtest.ExternalEtcd{Servers: []string{"http://127.0.0.1:1"}, CertFile: "file"}, "one of CertFile and KeyFile"),
	)

	It("ends Start if it has no certificate that can be read", func(ctx SpecContext) {
		missing := filepath.Join(GinkgoT().TempDir(), "missing")
		env := envtest.New(envtest.Options{Etcd: &envtest.ExternalEtcd{Servers: []string{"https://127.0.0.1:1"}, CAFile: missing}})
		Expect(env.Start(ctx)).To(MatchError(ContainSubstring("load the certificates for etcd")))
	})

	It("ends Start with its context if nobody answers", func(ctx SpecContext) {
		soon, cancel := context.WithTimeout(ctx, patience/40)
		defer cancel()
		env := envtest.New(envtest.Options{Etcd: &envtest.ExternalEtcd{Servers: []string{"http://127.0.0.1:1"}}})
		Expect(env.Start(soon)).To(MatchError(And(ContainSubstring("reach etcd at [http://127.0.0.1:1]"), ContainSubstring("connection refused"))))
	})
})
