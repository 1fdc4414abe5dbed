// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestHistoryIsKeptForFiveMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		_, client := started(t)
		first := put(t, client, "key", "1")
		put(t, client, "key", "2")
		time.Sleep(historyAge - time.Second)
		old, err := client.KV.Get(t.Context(), "key", clientv3.WithRev(first))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(old.Kvs[0].Value)).To(Equal("1"))
		late := put(t, client, "key", "3")
		put(t, client, "key", "4")

		time.Sleep(2 * sampleAge)
		synctest.Wait()
		_, err = client.KV.Get(t.Context(), "key", clientv3.WithRev(first))
		g.Expect(err).To(Equal(rpctypes.ErrCompacted))
		newer, err := client.KV.Get(t.Context(), "key", clientv3.WithRev(late))
		g.Expect(err).NotTo(HaveOccurred(), "what was written since is younger")
		g.Expect(string(newer.Kvs[0].Value)).To(Equal("3"))
	})
}

func TestOutlived(t *testing.T) {
	begin := time.Now()
	at := func(revision int64, minutes int, megabytes int64) sample {
		return sample{revision, begin.Add(time.Duration(minutes) * time.Minute), megabytes << 20}
	}
	h := history{limit: 512 << 20}
	for name, c := range map[string]struct {
		samples []sample
		now     sample
		want    int64
		left    int
	}{
		"nothing":            {nil, at(9, 9, 9), 0, 0},
		"all young":          {[]sample{at(1, 0, 0), at(2, 2, 100)}, at(3, 4, 500), 0, 2},
		"one old":            {[]sample{at(1, 0, 0), at(2, 2, 100)}, at(3, 5, 200), 1, 1},
		"all old":            {[]sample{at(1, 0, 0), at(2, 2, 100)}, at(3, 7, 200), 2, 0},
		"much written since": {[]sample{at(1, 0, 0), at(2, 1, 100)}, at(3, 2, 512), 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			revision, left := h.tooOld(c.samples, c.now)
			g.Expect(revision).To(Equal(c.want))
			g.Expect(left).To(HaveLen(c.left))
		})
	}
}

// TestTheDatabaseDoesNotGrowWithWhatIsWritten writes 30 times the history.
func TestTheDatabaseDoesNotGrowWithWhatIsWritten(t *testing.T) {
	const limit, valueBytes = 8 << 20, 100 << 10
	g := NewWithT(t)
	s, err := start(t.TempDir(), newHistory(limit))
	g.Expect(err).NotTo(HaveOccurred())
	client := s.Client()
	value := strings.Repeat("x", valueBytes)
	for i := range 30 * limit / valueBytes {
		put(t, client, fmt.Sprint(i%7), value)
	}
	info, err := os.Stat(filepath.Join(s.folder.path, databaseName))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(info.Size()).To(BeNumerically("<", 8*limit))
	g.Expect(s.store.FirstRev()).To(BeNumerically(">", 1))
	CloseClient(client)
	g.Expect(s.Stop()).To(Succeed())
}
