// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/cache"
	"github.com/tarn-dev/tarn/pkg/lease"
)

// BenchmarkFiftySecrets reports how much memory leases on 50 Secrets of 32 KB take, whatever else the cluster has, and how much is left a
// second after the idle time of the last one. It is to be run by itself: what specs leave to the garbage collector would count.
func BenchmarkFiftySecrets(b *testing.B) {
	const most, mostLeft = 5 << 20, 512 << 10
	took, left := 0, 0
	for b.Loop() {
		took, left = heapOfNames(b, 50)
	}
	if took > most || left > mostLeft {
		b.Errorf("the leases take %d bytes and leave %d, want at most %d and %d", took, left, most, mostLeft)
	}
	b.ReportMetric(float64(took)/(1<<20), "MiB")
	b.ReportMetric(float64(left)/(1<<20), "MiB-left")
}

func heapOfNames(t testing.TB, names int) (took, left int) {
	g := NewWithT(t)
	c, stop := onFakeServerWith(t, cache.Tuning{LeaseIdleTime: idle}, answer, cache.Options{})
	ctx := t.Context()
	before := heapInUse()
	held := make([]*lease.Lease, names)
	for i := range held {
		var err error
		held[i], err = lease.Acquire(ctx, c, &corev1.Secret{}, lease.Scope{Namespace: "shop", Name: fmt.Sprint("secret-", i)})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(held[i].Get(ctx, client.ObjectKey{Namespace: "shop", Name: fmt.Sprint("secret-", i)}, &corev1.Secret{})).To(Succeed())
	}
	took = heapInUse() - before
	for _, l := range held {
		g.Expect(l.Release()).To(Succeed())
	}
	clear(held)
	time.Sleep(idle + time.Second)
	left = heapInUse() - before
	stop()
	return took, left
}

// answer answers a list of a name with a Secret of 32 KB, and a watch with nothing.
func answer(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Has("watch") {
		nothing, _ := answerWatch(r)
		return nothing, nil
	}
	name := strings.TrimPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
	secrets := corev1.SecretList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "SecretList"}, ListMeta: metav1.ListMeta{ResourceVersion: "2"},
		Items: []corev1.Secret{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, ResourceVersion: "1"},
			Data:       map[string][]byte{"key": bytes.Repeat([]byte(name[:8]), 4<<10)},
		}},
	}
	text, err := json.Marshal(secrets)
	return answerWith(r, http.StatusOK, bytes.NewReader(text)), err
}

// heapInUse returns the number of bytes of the heap that are in use.
func heapInUse() int {
	runtime.GC()
	runtime.GC() // what has a finalizer goes with the second
	stats := runtime.MemStats{}
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}
