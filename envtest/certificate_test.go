// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"crypto/x509"
	"encoding/pem"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// byToken and byCertificate take the other credential away.
func byToken(config *rest.Config) *rest.Config {
	c := rest.CopyConfig(config)
	c.CertData, c.KeyData = nil, nil
	return c
}

func byCertificate(config *rest.Config) *rest.Config {
	c := rest.CopyConfig(config)
	c.BearerToken = ""
	return c
}

// throughFile is the configuration that another program reads from a kubeconfig.
func throughFile(config *rest.Config) *rest.Config {
	GinkgoHelper()
	file := clientcmdapi.NewConfig()
	file.Clusters["c"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	file.AuthInfos["u"] = &clientcmdapi.AuthInfo{
		ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken,
	}
	file.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	file.CurrentContext = "x"
	data, err := clientcmd.Write(*file)
	Expect(err).NotTo(HaveOccurred())
	read, err := clientcmd.RESTConfigFromKubeConfig(data)
	Expect(err).NotTo(HaveOccurred())
	return read
}

var _ = Describe("credentials", func() {
	BeforeEach(onlyOurs)

	DescribeTable("of the administrator are enough alone", func(ctx SpecContext, alone func(*rest.Config) *rest.Config) {
		kube := kubernetes.NewForConfigOrDie(throughFile(alone(target.env.Config())))
		_, err := kube.CoreV1().Secrets("").List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
	},
		Entry("the token", SpecTimeout(patience), byToken),
		Entry("the certificate", SpecTimeout(patience), byCertificate),
	)

	DescribeTable("of an added user name the user and the groups", func(ctx SpecContext, alone func(*rest.Config) *rest.Config) {
		config, err := target.env.AddUser("joan", "painters", "writers")
		Expect(err).NotTo(HaveOccurred())
		kube := kubernetes.NewForConfigOrDie(throughFile(alone(config)))
		_, err = kube.CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(ContainSubstring(`User "joan" cannot list`)))
		_, err = kube.Discovery().ServerGroups()
		Expect(err).NotTo(HaveOccurred(), "who is known is authenticated")
	},
		Entry("the token", SpecTimeout(patience), byToken),
		Entry("the certificate", SpecTimeout(patience), byCertificate),
	)

	It("of an added user carry the groups as organizations", func() {
		config, err := target.env.AddUser("joan", "painters", "writers")
		Expect(err).NotTo(HaveOccurred())
		block, rest := pem.Decode(config.CertData)
		Expect(rest).To(BeEmpty())
		cert, err := x509.ParseCertificate(block.Bytes)
		Expect(err).NotTo(HaveOccurred())
		Expect(cert.Subject.CommonName).To(Equal("joan"))
		Expect(cert.Subject.Organization).To(ConsistOf("painters", "writers"))
		Expect(cert.ExtKeyUsage).To(Equal([]x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}))
		Expect(cert.IsCA).To(BeFalse())
	})

	It("are both in a kubeconfig", func() {
		data, err := target.env.KubeConfig()
		Expect(err).NotTo(HaveOccurred())
		config, err := clientcmd.RESTConfigFromKubeConfig(data)
		Expect(err).NotTo(HaveOccurred())
		Expect(config.BearerToken).To(Equal(target.env.Config().BearerToken))
		Expect(config.CertData).To(Equal(target.env.Config().CertData))
		Expect(config.KeyData).To(Equal(target.env.Config().KeyData))
	})
})
