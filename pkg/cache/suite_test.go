// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"context"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/tarn-dev/tarn/internal/specs"
	"github.com/tarn-dev/tarn/pkg/cache"
)

func TestCache(t *testing.T) {
	log.SetLogger(GinkgoLogr)
	RegisterFailHandler(Fail)
	specs.Run(t, "Cache Suite", // what waits the longest, for discovery and time-outs of Kubernetes, runs beside the rest
		[]string{"returning_test.go", "aggregated_test.go"},
		[]string{"managers_test.go", "optional_test.go", "unwatchable_test.go", "peer_test.go"})
}

// patience is how long a spec waits for what must happen soon.
const patience = specs.Patience

var (
	env specs.Server
	cfg *rest.Config
	api client.Client // reads from the API server
)

var _ = BeforeSuite(func(ctx SpecContext) { env, cfg, api = specs.EitherServer(ctx, leftByTheOracle) })

// leftByTheOracle is what controller-runtime's cache leaves behind when a watch of
// metadata is stopped with an event unread; ours does not use watch.Filter.
var leftByTheOracle = goleak.IgnoreAnyFunction("k8s.io/apimachinery/pkg/watch.(*filteredWatch).loop")

// newNamespace creates a namespace for the spec.
func newNamespace(ctx context.Context) string {
	GinkgoHelper()
	return specs.Namespace(ctx, api, "cache-")
}

// start runs c until the spec has ended or the returned function is called, which
// waits for its end.
func start(c cache.Cache) (stop func()) {
	GinkgoHelper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	stopped := false
	stop = func() {
		GinkgoHelper()
		if !stopped {
			stopped = true
			cancel()
			Eventually(ended).Should(Receive(BeNil()))
		}
	}
	DeferCleanup(stop)
	return stop
}

// started makes a cache and runs it until the spec ends.
func started(ctx context.Context, makeCache cache.NewCacheFunc, opts cache.Options) cache.Cache {
	GinkgoHelper()
	c, err := makeCache(cfg, opts)
	Expect(err).NotTo(HaveOccurred())
	start(c)
	Expect(c.WaitForCacheSync(ctx)).To(BeTrue())
	return c
}

// configMap returns a ConfigMap with a label that says in which set it is, and
// data that says the same.
func configMap(namespace, name, set string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"set": set}},
		Data:       map[string]string{"set": set},
	}
}

// create creates objects and returns the last one's resourceVersion.
func create(ctx context.Context, objects ...client.Object) (version string) {
	GinkgoHelper()
	for _, obj := range objects {
		Expect(api.Create(ctx, obj)).To(Succeed())
		version = obj.GetResourceVersion()
	}
	return version
}
