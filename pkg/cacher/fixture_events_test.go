// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestEventsGetTheValueOfBefore: the fixture of these tests must not fail for what etcd leaves out.
func TestEventsGetTheValueOfBefore(t *testing.T) {
	g := NewWithT(t)
	etcd := startEtcd(t)
	kv := etcd.KV
	ctx, cancel := context.WithCancel(t.Context())
	events := wholeEvents{etcd.Watcher, kv}.Watch(ctx, "key", clientv3.WithRev(1)) // etcd is not asked for the values of before
	for _, value := range []string{"one", "two"} {
		_, err := kv.Put(ctx, "key", value)
		g.Expect(err).NotTo(HaveOccurred())
	}
	_, err := kv.Delete(ctx, "key")
	g.Expect(err).NotTo(HaveOccurred())

	var before []string
	for len(before) < 3 {
		response := <-events
		g.Expect(response.Err()).NotTo(HaveOccurred())
		for _, e := range response.Events {
			if e.PrevKv == nil {
				before = append(before, "none")
				continue
			}
			before = append(before, string(e.PrevKv.Value))
		}
	}
	g.Expect(before).To(Equal([]string{"none", "one", "two"}))
	cancel()
	for range events { // until it is closed
	}
}
