// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestALeaseTakesItsKeysInOneRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		_, client := started(t)
		one, err := client.Lease.Grant(t.Context(), 5)
		g.Expect(err).NotTo(HaveOccurred())
		other, err := client.Lease.Grant(t.Context(), 60)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(other.ID).NotTo(Equal(one.ID))
		for key, lease := range map[string]clientv3.LeaseID{"a": one.ID, "b": one.ID, "c": other.ID, "d": 0} {
			_, err := client.KV.Txn(t.Context()).Then(clientv3.OpPut(key, "", clientv3.WithLease(lease))).Commit()
			g.Expect(err).NotTo(HaveOccurred())
		}
		watch := client.Watch(t.Context(), "", clientv3.WithPrefix())
		begun := time.Now()
		response := <-watch
		g.Expect(time.Since(begun)).To(BeNumerically("~", 5*time.Second, 2*time.Second))
		g.Expect(response.Events).To(HaveLen(2))
		g.Expect(response.Events[0].Kv.ModRevision).To(Equal(response.Events[1].Kv.ModRevision))
		left, err := client.KV.Get(t.Context(), "", clientv3.WithPrefix(), clientv3.WithCountOnly())
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(left.Count).To(BeEquivalentTo(2))
		_, err = client.KV.Txn(t.Context()).Then(clientv3.OpPut("e", "", clientv3.WithLease(one.ID))).Commit()
		g.Expect(err).To(Equal(rpctypes.ErrLeaseNotFound))
	})
}
