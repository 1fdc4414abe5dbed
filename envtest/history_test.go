// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package envtest_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/pkg/cacher"
)

// large is a value as large as those of Helm's releases or of certificate bundles.
var large = strings.Repeat("x", 200<<10)

// updateLarge updates a ConfigMap and a Secret of 200 KiB so often, while clients watch the former that never read, and calls then while
// they do.
func updateLarge(ctx context.Context, config *rest.Config, updates, readers int, then func()) error {
	kube := kubernetes.NewForConfigOrDie(config)
	cm, err := kube.CoreV1().ConfigMaps("default").Create(ctx, configMap("large", "0"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	secret, err := kube.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "large"}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	for range readers {
		own := rest.CopyConfig(config)
		own.UserAgent = "never reads"
		w, err := kubernetes.NewForConfigOrDie(own).CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		defer w.Stop()
	}
	cm.Data["large"], secret.Data = large, map[string][]byte{"large": []byte(large)}
	for i := range updates {
		cm.Data["key"] = fmt.Sprint(i)
		if cm, err = kube.CoreV1().ConfigMaps("default").Update(ctx, cm, metav1.UpdateOptions{}); err != nil {
			return err
		}
		secret.Labels = map[string]string{"key": fmt.Sprint(i)}
		if secret, err = kube.CoreV1().Secrets("default").Update(ctx, secret, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	then()
	return nil
}

// TestHistoryOfAServerIsBounded writes 80 MB in objects of two kinds, and leaves one alive of each.
func TestHistoryOfAServerIsBounded(t *testing.T) {
	if os.Getenv(oracleVariable) != "" {
		t.Skip("about the environment: there is none with " + oracleVariable)
	}
	g := NewWithT(t)
	env := envtest.StartWith(t, envtest.Options{StorageDecorator: envtest.Cacher(cacher.Options{})})
	ctx, cancel := context.WithTimeout(t.Context(), 10*patience) // 80 MB take a minute under the race detector, beside load
	defer cancel()
	before := heapInUse()
	g.Expect(updateLarge(ctx, env.Config(), 200, 0, func() {
		g.Expect(heapInUse()).To(BeNumerically("<", before+64<<20), "two thirds of 64 MiB, and what is in use")
	})).To(Succeed())
}

// BenchmarkHistory measures what an environment holds after 1,500 updates of a ConfigMap and of a Secret with 200 KiB,
// without a watch, and with 100 watches that never read. Beside it stands a history of 256 MiB for each resource.
func BenchmarkHistory(b *testing.B) {
	for name, options := range map[string]cacher.Options{
		"together": {}, "each": {HistoryBudget: cacher.NewHistoryBudget(math.MaxInt), Decoded: ptr.To(true)},
	} {
		for _, readers := range []int{0, 100} {
			b.Run(fmt.Sprintf("Bound=%s/Readers=%d", name, readers), func(b *testing.B) {
				for range b.N {
					env := envtest.New(envtest.Options{StorageDecorator: envtest.Cacher(options)})
					must(b, env.Start(b.Context()))
					before := heapInUse()
					must(b, updateLarge(b.Context(), env.Config(), 1500, readers, func() {
						b.ReportMetric(float64(heapInUse()-before)/(1<<20), "MiB")
					}))
					must(b, env.Stop())
				}
			})
		}
	}
}
