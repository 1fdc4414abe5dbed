// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"context"
	"errors"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/tarn-dev/tarn/pkg/cache"
	"github.com/tarn-dev/tarn/pkg/inspect"
)

// The other phases are in the specs of the overview; only "stalled" takes eleven minutes, and is in a test
// with a clock of its own.
var _ = Describe("A phase", func() {
	phaseOf := func(l looking) func() any {
		return func() any { return l.informer("ConfigMap", "structured")["state"].(tree)["phase"] }
	}
	in := func(ctx context.Context) cache.Options {
		return cache.Options{DefaultNamespaces: map[string]cache.Config{newNamespace(ctx): {}}}
	}

	It("is not started, and then synced", func(ctx SpecContext) {
		c, err := cache.New(cfg, in(ctx))
		Expect(err).NotTo(HaveOccurred())
		_, err = c.GetInformer(ctx, &corev1.ConfigMap{}, cache.BlockUntilSynced(false))
		Expect(err).NotTo(HaveOccurred())
		phase := phaseOf(look(c, inspect.Options{}))
		Expect(phase()).To(Equal("not started"))
		running, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- c.Start(running) }()
		Eventually(phase).Should(Equal("synced"))
		stop()
		Eventually(ended).Should(Receive(BeNil()))
	})

	It("is listing while the first list is not complete", func(ctx SpecContext) {
		traffic := &wire{hold: make(chan struct{})}
		close(traffic.hold) // a list is a watch too
		c := started(traffic.through(cache.New), cfg, in(ctx))
		_, err := c.GetInformer(ctx, &corev1.ConfigMap{}, cache.BlockUntilSynced(false))
		Expect(err).NotTo(HaveOccurred())
		Eventually(traffic.requests.Load).Should(BeNumerically(">", 0))
		Expect(phaseOf(look(c, inspect.Options{}))()).To(Equal("listing"))
	})

	It("is silent when nothing has come for longer than a watch may be silent", func(ctx SpecContext) {
		c := started(cache.With(cache.Tuning{TuningByObject: cache.TuningByObject{WatchSilence: time.Second}}), cfg, in(ctx))
		watched(ctx, c, &corev1.ConfigMap{})
		Eventually(phaseOf(look(c, inspect.Options{}))).Should(Equal("silent"))
	})

	It("is incomplete when a transform has failed for an object", func(ctx SpecContext) {
		opts := in(ctx)
		for namespace := range opts.DefaultNamespaces {
			create(ctx, configMap(namespace, "one", nil))
		}
		opts.DefaultTransform = func(any) (any, error) { return nil, errors.New("boom") }
		c := started(cache.New, cfg, opts)
		watched(ctx, c, &corev1.ConfigMap{})
		Eventually(phaseOf(look(c, inspect.Options{}))).Should(Equal("incomplete"))
	})
})
