// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/types"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/config"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/features"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
)

// realEtcd starts etcd's own server in this process, and returns a client of it.
func realEtcd(t *testing.T) *clientv3.Client {
	t.Helper()
	peers, err := types.NewURLs([]string{"http://127.0.0.1:2380"}) // nothing listens there
	if err != nil {
		t.Fatal(err)
	}
	defaults := embed.NewConfig()
	server, err := etcdserver.NewServer(config.ServerConfig{
		Name: "real", DataDir: t.TempDir(), PeerURLs: peers, ClientURLs: peers,
		InitialPeerURLsMap: types.URLsMap{"real": peers}, InitialClusterToken: "real", NewCluster: true,
		TickMs: 10, ElectionTicks: 5, UnsafeNoFsync: true, MaxTxnOps: defaults.MaxTxnOps,
		MaxRequestBytes: defaults.MaxRequestBytes, AuthToken: defaults.AuthToken, BcryptCost: defaults.BcryptCost,
		ServerFeatureGate: features.NewDefaultServerFeatureGate("real", zap.NewNop()), Logger: zap.NewNop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	server.Start()
	<-server.ReadyNotify()
	client := v3client.New(server)
	t.Cleanup(func() {
		_ = client.Close() // says that it was closed
		server.HardStop()
	})
	return client
}

// TestAnswersAreThoseOfEtcd asks etcd's own server and ours the same at random, and compares the answers and the events.
func TestAnswersAreThoseOfEtcd(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, seed))
	s, ours := started(t)
	real := realEtcd(t)
	var revision int64 = 1
	for range 3000 {
		ask := question(random, revision)
		if strings.HasPrefix(ask.name, "compact") {
			_, err := real.Compact(t.Context(), ask.revision)
			if ourErr := s.compact(ask.revision); (err == nil) != (ourErr == nil) {
				t.Fatalf("%s: etcd: %v; ours: %v", ask.name, err, ourErr)
			}
			continue
		}
		want, got := ask.answer(t.Context(), real), ask.answer(t.Context(), ours.Client)
		if want.text != got.text {
			t.Fatalf("%s:\netcd: %s\nours: %s", ask.name, want.text, got.text)
		}
		revision = max(revision, want.revision)
	}
	for _, from := range []int64{1, revision / 2, revision - 20} {
		want, got := events(t, real, from, revision), events(t, ours.Client, from, revision)
		if want != got {
			t.Errorf("a watch from %d:\netcd: %s\nours: %s", from, want, got)
		}
	}
}

// asked is a request.
type asked struct {
	name     string
	revision int64
	op       clientv3.Op
}

// answered is what a server made of it.
type answered struct {
	text     string
	revision int64
}

// question makes up a request, when the store is at a revision.
func question(random *rand.Rand, revision int64) asked {
	key := fmt.Sprintf("/registry/%c/%d", 'a'+rune(random.IntN(2)), random.IntN(20))
	at := random.Int64N(revision + 2)
	expected := clientv3.Compare(clientv3.ModRevision(key), []string{"=", "<", ">", "!="}[random.IntN(4)], at)
	get := clientv3.OpGet(key, clientv3.WithRev(at*random.Int64N(2)))
	switch n := random.IntN(100); {
	case n < 30:
		op := clientv3.OpPut(key, strings.Repeat("x", random.IntN(2000)))
		return asked{fmt.Sprintf("put %s", key), 0, clientv3.OpTxn(nil, []clientv3.Op{op}, nil)}
	case n < 45:
		op := clientv3.OpPut(key, fmt.Sprint(n), clientv3.WithPrevKV())
		return asked{fmt.Sprintf("compare %s with %d and put", key, at), 0, clientv3.OpTxn([]clientv3.Cmp{expected}, []clientv3.Op{op}, []clientv3.Op{get})}
	case n < 60:
		return asked{fmt.Sprintf("compare %s with %d and delete", key, at), 0,
			clientv3.OpTxn([]clientv3.Cmp{expected}, []clientv3.Op{clientv3.OpDelete(key)}, []clientv3.Op{clientv3.OpGet(key)})}
	case n < 62:
		return asked{"delete a range", 0, clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpDelete("/registry/a/1", clientv3.WithPrefix())}, nil)}
	case n < 63:
		return asked{"put with a lease that there is not", 0, clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpPut(key, "", clientv3.WithLease(7))}, nil)}
	case n < 64:
		return asked{"put too much", 0, clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpPut(key, strings.Repeat("x", 2<<20))}, nil)}
	case n < 65 && revision > 100:
		return asked{name: "compact", revision: revision - 50 - random.Int64N(50)}
	case n < 75:
		return asked{fmt.Sprintf("get %s at %d", key, at), 0, get}
	case n < 85:
		return asked{"count", 0, clientv3.OpGet("/registry/", clientv3.WithPrefix(), clientv3.WithCountOnly())}
	case n < 90:
		return asked{"keys", 0, clientv3.OpGet("/registry/", clientv3.WithPrefix(), clientv3.WithKeysOnly())}
	}
	return asked{fmt.Sprintf("list at %d", at), 0, clientv3.OpGet("/registry/", clientv3.WithRange("/registry/b/5"), clientv3.WithRev(at), clientv3.WithLimit(random.Int64N(9)))}
}

// answer asks a server.
func (a asked) answer(ctx context.Context, client *clientv3.Client) answered {
	response, err := client.KV.Do(ctx, a.op)
	if err != nil {
		return answered{text: err.Error()}
	}
	if a.op.IsTxn() {
		made := response.Txn()
		return answered{text: withoutMember((*pb.TxnResponse)(made)), revision: made.Header.Revision}
	}
	return answered{text: withoutMember((*pb.RangeResponse)(response.Get())), revision: response.Get().Header.Revision}
}

// withoutMember describes a response without what says which member it is from.
func withoutMember(response interface {
	proto.Message
	GetHeader() *pb.ResponseHeader
}) string {
	header := response.GetHeader()
	header.ClusterId, header.MemberId, header.RaftTerm = 0, 0, 0
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(response)
	return fmt.Sprintf("%x %v", text, err)
}

// events describes what a watch sends from one revision to another, or how it ends.
func events(t *testing.T, client *clientv3.Client, from, to int64) string {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var text strings.Builder
	for response := range client.Watch(ctx, "/registry/", clientv3.WithPrefix(), clientv3.WithRev(from), clientv3.WithPrevKV()) {
		if err := response.Err(); err != nil {
			return fmt.Sprintf("%s: %v at %d", &text, err, response.CompactRevision)
		}
		for _, event := range response.Events {
			fmt.Fprintf(&text, "%v %v before %v\n", event.Type, event.Kv, event.PrevKv)
			if event.Kv.ModRevision >= to {
				return text.String()
			}
		}
	}
	return text.String() + " ended"
}

func TestALeaseThatIsTooLongIsRefusedAsByEtcd(t *testing.T) {
	g := NewWithT(t)
	_, ours := started(t)
	_, want := realEtcd(t).Lease.Grant(t.Context(), 9_000_000_001)
	_, got := ours.Lease.Grant(t.Context(), 9_000_000_001)
	g.Expect(got).To(HaveOccurred())
	g.Expect(got).To(MatchError(want.Error()))
}
