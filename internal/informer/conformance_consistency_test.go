// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/consistencydetector"
)

// With KUBE_WATCHLIST_INCONSISTENCY_DETECTOR=true client-go compares what a streaming
// list has sent with a list, and panics if they differ: it has to find objects in both.
func TestInformerIsConsistentForClientGosDetector(t *testing.T) {
	defer consistencydetector.SetDataConsistencyDetectionForWatchListEnabledForTest(true)()
	eachInformer(t, setting{}, func(r *rig) {
		a, b := configMap("ns/a", "1"), configMap("ns/b", "1")
		a.UID, b.UID = "a", "b" // by which the detector sorts what it compares
		r.server.put(a, b)
		r.start()
		r.Expect(describeAll(r.informer.GetStore().List())).To(Equal([]string{"ns/a=1", "ns/b=1"}))
		r.server.put(configMap("ns/a", "2"))
		r.settle()
		r.Expect(describeAll(r.informer.GetStore().List())).To(Equal([]string{"ns/a=2", "ns/b=1"}))
	})
	eachInformer(t, setting{}, func(r *rig) {
		r.Expect(r.informer.SetTransform(func(obj any) (any, error) {
			obj.(*corev1.ConfigMap).Data["value"] = "transformed"
			return obj, nil
		})).To(Succeed())
		r.server.put(configMap("ns/a", "1"))
		r.start()
		r.Expect(describeAll(r.informer.GetStore().List())).To(Equal([]string{"ns/a=transformed"}))
	})
}
