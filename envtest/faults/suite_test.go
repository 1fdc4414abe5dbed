// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/envtest/faults"
	"github.com/tarn-dev/tarn/internal/specs"
)

// patience is how long a spec may take; all take far less.
const patience = 30 * time.Second

var (
	env      *envtest.Environment
	injector *faults.Injector
)

var _ = BeforeSuite(func(ctx SpecContext) {
	injector = faults.New()
	env, _, _ = specs.Environment(ctx, envtest.Options{Faults: injector})
})

var _ = AfterEach(func() { injector.End() })

func TestFaults(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "faults")
}

// user returns a client of one user, with connections of its own.
func user(name, contentType string) kubernetes.Interface {
	GinkgoHelper()
	config, err := env.AddUser(name, "system:masters")
	Expect(err).NotTo(HaveOccurred())
	return clientOf(config, contentType)
}

func clientOf(config *rest.Config, contentType string) kubernetes.Interface {
	GinkgoHelper()
	config.ContentType, config.QPS = contentType, -1
	config.UserAgent = "agent-of-" + contentType
	config.Dial = nil
	client, err := kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { closeIdle(client) })
	return client
}

func closeIdle(client kubernetes.Interface) {
	if c, ok := client.CoreV1().RESTClient().(*rest.RESTClient); ok {
		c.Client.CloseIdleConnections()
	}
}

func namespace(ctx context.Context) string {
	GinkgoHelper()
	ns, err := user("admin", "application/json").CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "faults-"}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return ns.Name
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
}
