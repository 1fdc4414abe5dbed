// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"os"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/kubernetes"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/pkg/cacher"
)

// confused is a Cacher that takes all ConfigMaps for the same, so that it has only one of them.
func confused() envtest.StorageDecorator {
	return decorated(envtest.Cacher(cacher.Options{}), func(m storeMaker) (storage.Interface, factory.DestroyFunc, error) {
		if m.resource != configMaps {
			return m.make(m.keyFunc)
		}
		return m.make(func(runtime.Object) (string, error) { return m.prefix + "/default/the-one", nil })
	})
}

var _ = Describe("the check of consistency", func() {
	BeforeEach(onlyOurs)

	// stopAfterTwo is what Stop says of an environment in which two ConfigMaps were made.
	stopAfterTwo := func(ctx SpecContext, opts envtest.Options) error {
		GinkgoHelper()
		env := envtest.New(opts)
		Expect(env.Start(ctx)).To(Succeed())
		maps := kubernetes.NewForConfigOrDie(env.Config()).CoreV1().ConfigMaps("default")
		for _, name := range []string{"one", "two"} {
			_, err := maps.Create(ctx, configMap(name, ""), metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		_, err := maps.List(ctx, metav1.ListOptions{}) // the cache has come so far when this is answered
		Expect(err).NotTo(HaveOccurred())
		return env.Stop()
	}

	It("lets Stop fail when a watch cache does not hold what etcd does", func(ctx SpecContext) {
		err := stopAfterTwo(ctx, envtest.Options{CheckConsistency: true, StorageDecorator: confused()})
		Expect(err).To(MatchError(cacher.ErrInconsistent))
		Expect(err).To(MatchError(And(ContainSubstring("configmaps"), ContainSubstring("default/one is not in the cache"))))
	}, SpecTimeout(patience))

	It("is done when the environment variable says so, and not otherwise", func(ctx SpecContext) {
		before, was := os.LookupEnv("TARN_CHECK_CONSISTENCY")
		DeferCleanup(func() error {
			if was {
				return os.Setenv("TARN_CHECK_CONSISTENCY", before)
			}
			return os.Unsetenv("TARN_CHECK_CONSISTENCY")
		})
		Expect(os.Setenv("TARN_CHECK_CONSISTENCY", "true")).To(Succeed())
		Expect(stopAfterTwo(ctx, envtest.Options{StorageDecorator: confused()})).To(MatchError(cacher.ErrInconsistent))
		Expect(os.Unsetenv("TARN_CHECK_CONSISTENCY")).To(Succeed())
		Expect(stopAfterTwo(ctx, envtest.Options{StorageDecorator: confused()})).To(Succeed())
	}, SpecTimeout(patience))

	It("finds nothing when there is nothing to find", func(ctx SpecContext) {
		Expect(stopAfterTwo(ctx, envtest.Options{CheckConsistency: true, StorageDecorator: envtest.Cacher(cacher.Options{})})).To(Succeed())
	}, SpecTimeout(patience))
})
