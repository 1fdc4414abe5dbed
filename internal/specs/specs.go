// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package specs has what the Ginkgo suites share that run on the API server of envtest. Only tests import it.
//
// # Files
//
//   - specs.go: the environment of a suite
//   - server.go: a real kube-apiserver in its place
//   - run.go: runs the specs of a suite, some beside others
package specs

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/envtest"
)

// Patience is how long a spec waits for what must happen soon.
const Patience = 20 * time.Second

// running counts the environments of the process that have started, and not stopped yet.
var running atomic.Int32

// Environment starts an environment for a BeforeSuite, and stops it when the suite ends: then only the
// goroutines of mayStay may be left. If a spec starts a second environment, the goroutines of both are looked for
// when the last one stops. It returns the environment with its Config, and a client that reads from the API server.
// Eventually waits for Patience from then on.
func Environment(ctx context.Context, options envtest.Options, mayStay ...goleak.Option) (*envtest.Environment, *rest.Config, client.Client) {
	ginkgo.GinkgoHelper()
	gomega.SetDefaultEventuallyTimeout(Patience)
	mayStay = append(mayStay, goleak.IgnoreCurrent())
	env := envtest.New(options)
	gomega.Expect(env.Start(ctx)).To(gomega.Succeed())
	running.Add(1)
	ginkgo.DeferCleanup(func() {
		err := env.Stop()
		left := leftAfterOne(mayStay...)
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		gomega.Expect(left).To(gomega.Succeed())
	})
	api, err := client.New(env.Config(), client.Options{})
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	return env, env.Config(), api
}

// leftAfterOne is called when one environment has stopped. The last one's error names the goroutines that are
// left. While another runs, the error is nil, because the watches between the parts of that one end and begin
// anew after minutes, with other goroutines.
func leftAfterOne(mayStay ...goleak.Option) error {
	if running.Add(-1) > 0 {
		return nil
	}
	return goleak.Find(mayStay...)
}

// Namespace creates a namespace for a spec, and returns its name, which begins with prefix.
func Namespace(ctx context.Context, api client.Client, prefix string) string {
	ginkgo.GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}}
	gomega.Expect(api.Create(ctx, namespace)).To(gomega.Succeed())
	return namespace.Name
}
