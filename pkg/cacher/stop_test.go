// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/clock"

	"github.com/tarn-dev/tarn/pkg/cacher"
)

// waitingClock tells when a reader begins to wait for a revision, for which its time is never up.
type waitingClock struct {
	clock.RealClock
	waiting chan struct{}
}

func (c waitingClock) NewTimer(d time.Duration) clock.Timer {
	if d != 3*time.Second {
		return c.RealClock.NewTimer(d)
	}
	close(c.waiting)
	return c.RealClock.NewTimer(time.Hour)
}

// TestStopWakesReaders shows that nobody waits for a revision of a Cacher that has stopped.
func TestStopWakesReaders(t *testing.T) {
	for name, read := range map[string]func(storage.Interface, storage.ListOptions) error{
		"Get": func(c storage.Interface, o storage.ListOptions) error {
			return c.Get(t.Context(), podPrefix+"default/one", storage.GetOptions{ResourceVersion: o.ResourceVersion}, newPod())
		},
		"GetList": func(c storage.Interface, o storage.ListOptions) error {
			return c.GetList(t.Context(), podPrefix, o, newPodList())
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, s := NewWithT(t), newSetup()
			etcd3 := run(t, implementations()[2])
			clock := waitingClock{waiting: make(chan struct{})}
			c, err := cacher.New(cacher.Config{
				Storage: etcd3, GroupResource: pods, ResourcePrefix: podPrefix, KeyFunc: s.keyFunc, GetAttrsFunc: podAttributes,
				NewFunc: newPod, NewListFunc: newPodList, Codec: s.codec, Clock: clock,
			})
			g.Expect(err).NotTo(HaveOccurred())
			t.Cleanup(c.Stop)
			g.Expect(c.Wait(t.Context())).To(Succeed())
			answered := make(chan error, 1)
			go func() {
				answered <- read(c, storage.ListOptions{ResourceVersion: "1000000", Predicate: storage.Everything, Recursive: true})
			}()
			<-clock.waiting
			c.Stop()
			g.Eventually(answered).WithTimeout(10 * time.Second).Should(Receive(Satisfy(apierrors.IsTooManyRequests)))
		})
	}
}
