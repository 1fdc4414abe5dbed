// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"

	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// exchanged makes writes without a look at what there is.
func exchanged(t testing.TB, s *Server, writes ...Write) []Write {
	t.Helper()
	done, err := s.Exchange(t.Context(), "k/", func(iter.Seq2[Entry, error]) ([]Write, error) { return writes, nil })
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// TestExchangeIsSeenWriteByWrite makes more writes than the store keeps for a watch.
func TestExchangeIsSeenWriteByWrite(t *testing.T) {
	const n = 1000
	g := NewWithT(t)
	s, client := started(t)
	first := put(t, client, "k/0", "value")
	watch := client.Watch(t.Context(), "k/", clientv3.WithPrefix(), clientv3.WithPrevKV(), clientv3.WithRev(first+1))
	var writes []Write
	for i := range n {
		writes = append(writes, Write{Entry: Entry{Key: fmt.Sprintf("k/%d", i%7), Value: []byte(fmt.Sprint(i))}})
		if i%3 == 0 {
			writes[i].Value = nil
		}
	}
	made := exchanged(t, s, writes...)
	var pending []*clientv3.Event
	there := map[string]string{"k/0": "value"}
	for _, w := range made {
		before, was := there[w.Key]
		if w.Value == nil && !was {
			continue // nothing to delete
		}
		for len(pending) == 0 {
			pending = (<-watch).Events
		}
		event := pending[0]
		pending = pending[1:]
		g.Expect(string(event.Kv.Key)).To(Equal(w.Key))
		g.Expect(event.Kv.ModRevision).To(Equal(w.Revision))
		g.Expect(w.Revision).To(BeNumerically(">", first))
		first = w.Revision
		g.Expect(event.Type == clientv3.EventTypeDelete).To(Equal(w.Value == nil))
		if was {
			g.Expect(string(event.PrevKv.Value)).To(Equal(before))
		}
		there[w.Key] = string(w.Value)
		if w.Value == nil {
			delete(there, w.Key)
		}
	}
}

func TestExchangeShowsEverythingInPages(t *testing.T) {
	g := NewWithT(t)
	s, client := started(t)
	var want []string
	for i := range 2*exchangePage + 1 {
		want = append(want, fmt.Sprintf("k/%06d", i))
		put(t, client, want[i], "value")
	}
	put(t, client, "l", "of another prefix")
	var found []string
	_, err := s.Exchange(t.Context(), "k/", func(all iter.Seq2[Entry, error]) ([]Write, error) {
		for entry, err := range all {
			if err != nil {
				return nil, err
			}
			found = append(found, entry.Key)
		}
		return nil, errors.New("enough")
	})
	g.Expect(err).To(MatchError("enough"))
	g.Expect(found).To(Equal(want))
	found = nil
	for entry, err := range s.Read(t.Context(), "k/") {
		g.Expect(err).NotTo(HaveOccurred())
		found = append(found, entry.Key)
	}
	g.Expect(found).To(Equal(want))
}

// TestExchangeRefusesWhatBeganBefore lets a request write that has seen other keys.
func TestExchangeRefusesWhatBeganBefore(t *testing.T) {
	g := NewWithT(t)
	s, client := started(t)
	refused := errors.New("too late")
	write := func(ctx context.Context) error {
		_, err := client.KV.Txn(ctx).Then(clientv3.OpPut("k/1", "value")).Commit()
		return err
	}
	before, epoch := s.Request(t.Context(), refused)
	g.Expect(write(before)).To(Succeed())
	exchanged(t, s, Write{Entry: Entry{Key: "k/1"}})
	g.Expect(write(before)).To(MatchError(refused))
	g.Expect(write(t.Context())).To(Succeed(), "what is no request is not refused")
	after, next := s.Request(t.Context(), refused)
	g.Expect(write(after)).To(Succeed())
	g.Expect(next).To(Equal(epoch + 1))
}

func TestExchangeGivesALease(t *testing.T) {
	g := NewWithT(t)
	s, client := started(t)
	exchanged(t, s, Write{Entry: Entry{Key: "k/1", Value: []byte("v"), TTL: 100}}, Write{Entry: Entry{Key: "k/2", Value: []byte("v"), TTL: 100}},
		Write{Entry: Entry{Key: "k/3", Value: []byte("v")}})
	left := map[string]int64{}
	for entry, err := range s.Read(t.Context(), "k/") {
		g.Expect(err).NotTo(HaveOccurred())
		left[entry.Key] = entry.TTL
	}
	g.Expect(left).To(HaveKeyWithValue("k/1", BeNumerically("~", 100, 10)))
	g.Expect(left).To(HaveKeyWithValue("k/3", BeZero()))
	one, err := client.KV.Get(t.Context(), "k/", clientv3.WithPrefix())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(one.Kvs[0].Lease).To(Equal(one.Kvs[1].Lease))
}
