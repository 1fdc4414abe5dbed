// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/util/wait"
)

// member is a member of a cluster, which can be killed and started again.
type member struct {
	*embed.Etcd // nil while it does not run
	config      *embed.Config
	requests    *grpc.Server // serves the requests of clients
}

// etcdCluster is a cluster of etcd itself, with raft and files, in this process.
type etcdCluster struct {
	members []*member
}

// clustered says that there was a cluster in this process.
var clustered atomic.Bool

// startCluster starts so many members, which end with the test. change completes their configurations; it may be nil.
func startCluster(t testing.TB, size int, change func(*embed.Config)) *etcdCluster {
	t.Helper()
	clustered.Store(true)
	c := &etcdCluster{}
	var names []string
	for i := range size {
		config := embed.NewConfig()
		config.Name, config.Dir = fmt.Sprintf("member-%d", i), t.TempDir()
		config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
		config.TickMs, config.ElectionMs = 50, 500
		config.UnsafeNoFsync = true // nothing here loses power
		client, peer := freeURL(t), freeURL(t)
		config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
		config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
		if change != nil {
			change(config)
		}
		names = append(names, config.Name+"="+peer.String())
		c.members = append(c.members, &member{config: config})
	}
	begun := make(chan error, size)
	for _, m := range c.members {
		m.config.InitialCluster = strings.Join(names, ",")
		go func() { begun <- m.start() }()
	}
	var err error
	for range c.members {
		err = errors.Join(err, <-begun)
	}
	t.Cleanup(func() {
		var over sync.WaitGroup
		for _, m := range c.members {
			over.Go(m.kill)
		}
		over.Wait()
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// givenPorts has the addresses that freeURL has returned: nobody may listen there yet. Processes that run beside each other have others,
// as a rule.
var givenPorts sync.Map

// freeURL returns one of a port that nothing listens on, and another one each time. The kernel gives these ports to nobody who asks
// for any.
func freeURL(t testing.TB) url.URL {
	t.Helper()
	for range 100 {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(20000+os.Getpid()%12*1000+rand.IntN(1000)))
		if _, given := givenPorts.LoadOrStore(address, true); given {
			continue
		}
		if l, err := net.Listen("tcp", address); err == nil {
			_ = l.Close()
			return url.URL{Scheme: "http", Host: address}
		}
	}
	t.Fatal("there is no free port")
	return url.URL{}
}

// start returns when the member answers. After a kill, it goes on with its files.
func (m *member) start() (err error) {
	config, serving := *m.config, make(chan *grpc.Server, 1)
	config.ServiceRegister = func(requests *grpc.Server) { serving <- requests }
	config.GRPCAdditionalServerOptions = []grpc.ServerOption{grpc.WaitForHandlers(true)}
	if m.Etcd, err = embed.StartEtcd(&config); err != nil {
		return err
	}
	select {
	case m.requests = <-serving:
		return nil
	case err := <-m.Err():
		return err
	case <-time.After(patience):
		return fmt.Errorf("%s is not ready after %s", m.config.Name, patience)
	}
}

// kill ends the member without a word to the others. Requests end before: a watch that etcd is about to answer would read from a database
// that is closed, and panic in this process.
func (m *member) kill() {
	if m.Etcd == nil {
		return
	}
	if m.requests != nil { // else it never answered
		m.requests.Stop()
	}
	m.Server.HardStop()
	m.Close()
	m.Etcd, m.requests = nil, nil
}

// servers are the URLs for clients.
func (c *etcdCluster) servers() (urls []string) {
	for _, m := range c.members {
		urls = append(urls, m.config.AdvertiseClientUrls[0].String())
	}
	return urls
}

// client returns a client of all members, which ends with the test. config may have TLS.
func (c *etcdCluster) client(t testing.TB, config clientv3.Config) *clientv3.Client {
	t.Helper()
	config.Endpoints, config.DialTimeout, config.Logger = c.servers(), patience, zap.NewNop()
	client, err := clientv3.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// leader waits until the running members agree on one of them.
func (c *etcdCluster) leader(ctx context.Context) (*member, error) {
	var leader *member
	err := wait.PollUntilContextCancel(ctx, fast, true, func(context.Context) (bool, error) {
		running := slices.DeleteFunc(slices.Clone(c.members), func(m *member) bool { return m.Etcd == nil })
		led := slices.IndexFunc(running, func(m *member) bool { return m.Server.MemberID() == m.Server.Leader() })
		if led < 0 || slices.ContainsFunc(running, func(m *member) bool { return m.Server.Leader() != running[led].Server.MemberID() }) {
			return false, nil
		}
		leader = running[led]
		return true, nil
	})
	if err != nil {
		return nil, fmt.Errorf("the members have no leader: %w", err)
	}
	return leader, nil
}

// follower is a running member that does not lead.
func (c *etcdCluster) follower(ctx context.Context) (*member, error) {
	leader, err := c.leader(ctx)
	if err != nil {
		return nil, err
	}
	return c.members[slices.IndexFunc(c.members, func(m *member) bool { return m != leader && m.Etcd != nil })], nil
}

// disturbances are what is done to the cluster, by name. Each leaves it whole.
func (c *etcdCluster) disturbances(written func(context.Context) error) []disturbance {
	restart := func(choose func(context.Context) (*member, error)) func(context.Context) error {
		return func(ctx context.Context) error {
			m, err := choose(ctx)
			if err != nil {
				return err
			}
			m.kill()
			return errors.Join(written(ctx), m.start())
		}
	}
	return []disturbance{
		{"a follower is killed and started", restart(c.follower)},
		{"the leader is killed and started", restart(c.leader)},
		{"the leader is moved", c.moveLeader},
		{"the leader is cut off from the others", func(ctx context.Context) error { return c.cutOff(ctx, c.leader, written) }},
		{"a follower is cut off from the others", func(ctx context.Context) error { return c.cutOff(ctx, c.follower, written) }},
	}
}

type disturbance struct {
	name string
	do   func(context.Context) error
}

func (c *etcdCluster) moveLeader(ctx context.Context) error {
	from, err := c.leader(ctx)
	if err != nil {
		return err
	}
	to, err := c.follower(ctx)
	if err != nil {
		return err
	}
	return from.Server.MoveLeader(ctx, uint64(from.Server.MemberID()), uint64(to.Server.MemberID()))
}

// cutOff lets no message between a member and the others pass until there were writes.
func (c *etcdCluster) cutOff(ctx context.Context, choose func(context.Context) (*member, error), written func(context.Context) error) error {
	m, err := choose(ctx)
	if err != nil {
		return err
	}
	for _, other := range c.members {
		if other != m {
			m.Server.CutPeer(other.Server.MemberID())
			other.Server.CutPeer(m.Server.MemberID())
		}
	}
	err = written(ctx)
	for _, other := range c.members {
		if other != m {
			m.Server.MendPeer(other.Server.MemberID())
			other.Server.MendPeer(m.Server.MemberID())
		}
	}
	return err
}
