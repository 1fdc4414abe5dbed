// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tarn-dev/tarn/envtest"
)

// TestMemoryDoesNotGrowWithWhatIsWritten writes 128 MB in objects of 1 MB. One of them is alive. There is no watch cache,
// whose history is another bound.
func TestMemoryDoesNotGrowWithWhatIsWritten(t *testing.T) {
	if os.Getenv(oracleVariable) != "" {
		t.Skip("about the environment: there is none with " + oracleVariable)
	}
	const objectBytes, updates, bound = 1000 << 10, 128, 64 << 20
	g := NewWithT(t)
	env := envtest.StartWith(t, envtest.Options{StorageDecorator: envtest.Undecorated})
	ctx, cancel := context.WithTimeout(t.Context(), 10*patience)
	defer cancel()
	configMaps := kubernetes.NewForConfigOrDie(env.Config()).CoreV1().ConfigMaps("default")
	cm := configMap("big", "1")
	cm.Data["big"] = strings.Repeat("x", objectBytes)
	cm, err := configMaps.Create(ctx, cm, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	before := heapInUse()
	for i := range updates {
		cm.Data["key"] = fmt.Sprint(i)
		cm, err = configMaps.Update(ctx, cm, metav1.UpdateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	}
	after := heapInUse()
	g.Expect(after).To(BeNumerically("<", before+bound), "the heap keeps what was written")
}

// heapInUse is what is alive on the heap, in bytes.
func heapInUse() uint64 {
	runtime.GC()
	runtime.GC() // what finalizers of the first let go
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
