// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
)

func TestAWatchEndsWithItsContext(t *testing.T) {
	g := NewWithT(t)
	_, client := started(t)
	ctx, cancel := context.WithCancel(t.Context())
	watch := client.Watch(ctx, "key")
	cancel()
	_, open := <-watch
	g.Expect(open).To(BeFalse())
}

func TestAWatchOfAClosedClientIsRefused(t *testing.T) {
	g := NewWithT(t)
	s, _ := started(t)
	client := s.Client()
	CloseClient(client)
	response := <-client.Watch(t.Context(), "key")
	g.Expect(response.Err()).To(MatchError(ContainSubstring("closed")))
}

func TestAWatchOfWhatWasCompactedSaysSo(t *testing.T) {
	g := NewWithT(t)
	s, client := started(t)
	for i := range 5 {
		put(t, client, "key", fmt.Sprint(i))
	}
	g.Expect(s.compact(4)).To(Succeed())
	watch := client.Watch(t.Context(), "key", clientv3.WithRev(2))
	response := <-watch
	g.Expect(response.Err()).To(Equal(rpctypes.ErrCompacted))
	g.Expect(response.CompactRevision).To(BeEquivalentTo(4))
	_, open := <-watch
	g.Expect(open).To(BeFalse())
}

// TestAWatchThatIsNotReadHoldsNoEvents writes far more than a watch gets in one go before it is read.
func TestAWatchThatIsNotReadHoldsNoEvents(t *testing.T) {
	const writes, valueBytes, bound = 1000, 200 << 10, 100 << 20
	g := NewWithT(t)
	_, client := started(t)
	watch := client.Watch(t.Context(), "key", clientv3.WithPrevKV())
	value := strings.Repeat("x", valueBytes)
	before := heapInUse()
	for range writes {
		put(t, client, "key", value)
	}
	g.Expect(heapInUse()).To(BeNumerically("<", before+bound), "the watch keeps what nobody has read")
	var next int64 = 2
	for next < 2+writes {
		response := <-watch
		g.Expect(response.Err()).NotTo(HaveOccurred())
		for _, event := range response.Events {
			g.Expect(event.Kv.ModRevision).To(Equal(next), "no event is lost")
			g.Expect(event.PrevKv == nil).To(Equal(next == 2))
			next++
		}
	}
}

// TestWhatAWatchTellsOfCanBeRead reads each key as soon as a watch tells of it. There are many watches, because a read
// may miss a write that still tells others.
func TestWhatAWatchTellsOfCanBeRead(t *testing.T) {
	const writes, watches = 300, 100
	_, client := started(t)
	var told sync.WaitGroup
	for range watches {
		watch := client.Watch(t.Context(), "key", clientv3.WithPrefix())
		told.Go(func() { readWhatIsTold(t, client, watch, writes) })
	}
	for i := range writes {
		put(t, client, fmt.Sprint("key", i), "value")
	}
	told.Wait()
}

// readWhatIsTold reads the keys of so many events.
func readWhatIsTold(t *testing.T, client *kubernetes.Client, watch clientv3.WatchChan, events int) {
	for events > 0 {
		response, open := <-watch
		if !open || response.Err() != nil {
			t.Errorf("the watch ends with %v", response.Err())
			return
		}
		for _, event := range response.Events {
			events--
			found, err := client.KV.Get(t.Context(), string(event.Kv.Key))
			if err != nil || len(found.Kvs) != 1 {
				t.Errorf("a watch told of %s in revision %d, and a read has %v, %v", event.Kv.Key, event.Kv.ModRevision, found, err)
				return
			}
		}
	}
}

func TestAWatchLearnsOfTheRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		_, client := started(t)
		quiet := client.Watch(t.Context(), "quiet", clientv3.WithProgressNotify())
		silent := client.Watch(t.Context(), "silent")
		synctest.Wait()
		revision := put(t, client, "other", "value")
		response := <-quiet // in five seconds of this bubble's time
		g.Expect(response.IsProgressNotify()).To(BeTrue())
		g.Expect(response.Header.Revision).To(Equal(revision))
		g.Expect(silent).NotTo(Receive())

		g.Expect(client.RequestProgress(t.Context())).To(Succeed())
		for _, watch := range []clientv3.WatchChan{quiet, silent} {
			response := <-watch
			g.Expect(response.IsProgressNotify()).To(BeTrue())
			g.Expect(response.Header.Revision).To(Equal(revision))
		}
	})
}

func TestAServerThatHasFailedTellsItsWatches(t *testing.T) {
	g := NewWithT(t)
	s, err := Start(t.TempDir())
	g.Expect(err).NotTo(HaveOccurred())
	client := s.Client()
	watch := client.Watch(t.Context(), "key")
	s.failure.set(errors.New("etcd has failed: test"))
	response := <-watch
	g.Expect(response.Err()).To(MatchError(ContainSubstring("etcd has failed: test")))
	_, err = client.KV.Get(t.Context(), "key")
	g.Expect(err).To(MatchError("etcd has failed: test"))
	_, err = client.KV.Txn(t.Context()).Then(clientv3.OpPut("key", "")).Commit()
	g.Expect(err).To(MatchError("etcd has failed: test"))
	_, err = client.Lease.Grant(t.Context(), 5)
	g.Expect(err).To(MatchError("etcd has failed: test"))
	g.Expect(client.RequestProgress(t.Context())).To(MatchError("etcd has failed: test"))
	CloseClient(client)
	g.Expect(s.Stop()).To(MatchError("etcd has failed: test"))
}
