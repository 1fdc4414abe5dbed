// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"context"
	"fmt"
	"path"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"go.uber.org/zap"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	storagefeature "k8s.io/apiserver/pkg/storage/feature"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/utils/clock"
)

const (
	// dialPatience is how long kube-apiserver waits for an etcd.
	dialPatience = 20 * time.Second

	dialKeepAlive        = 30 * time.Second
	dialKeepAliveTimeout = 10 * time.Second
)

// backing is an etcd: one in this process, or one that others run too.
type backing interface {
	// Client returns a new client, whose watches no other client waits for. The caller closes it with etcd.CloseClient.
	Client() *kubernetes.Client
	// Stop ends what serves the clients, which are closed before.
	Stop() error
}

// remote is an etcd that runs elsewhere. Its clients share a connection.
type remote struct {
	shared    *clientv3.Client
	compactor storageCompactor
}

// storageCompactor is the compactor of etcd3, whose type has no exported name.
type storageCompactor interface {
	etcd3.Compactor
	Stop()
}

// dial connects to the servers, and returns when they answer. Old revisions are compacted as by kube-apiserver.
func dial(ctx context.Context, config storagebackend.Config) (*remote, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, dialPatience, fmt.Errorf("no answer in %s", dialPatience))
	defer cancel()
	t := config.Transport
	options := clientv3.Config{
		Endpoints: t.ServerList, DialTimeout: dialPatience,
		DialKeepAliveTime: dialKeepAlive, DialKeepAliveTimeout: dialKeepAliveTimeout, Logger: zap.NewNop(),
	}
	if t.CertFile != "" || t.KeyFile != "" || t.TrustedCAFile != "" {
		info := transport.TLSInfo{CertFile: t.CertFile, KeyFile: t.KeyFile, TrustedCAFile: t.TrustedCAFile}
		var err error
		if options.TLS, err = info.ClientConfig(); err != nil {
			return nil, fmt.Errorf("load the certificates for etcd: %w", err)
		}
	}
	shared, err := clientv3.New(options)
	if err != nil {
		return nil, fmt.Errorf("reach etcd at %v: %w", t.ServerList, err)
	}
	r := &remote{shared: shared}
	if err := r.check(ctx, config.Prefix); err != nil {
		_ = shared.Close()
		return nil, fmt.Errorf("reach etcd at %v: %w", t.ServerList, err)
	}
	// It asks in the background, for as long as the connection lives.
	storagefeature.DefaultFeatureSupportChecker.CheckClient(shared.Ctx(), shared, storage.RequestWatchProgress)
	r.compactor = etcd3.NewCompactor(shared, config.CompactionInterval, clock.RealClock{}, nil)
	return r, nil
}

// Client implements backing.
func (r *remote) Client() *kubernetes.Client {
	c := clientv3.NewCtxClient(context.Background())
	c.KV = clientv3.NewKV(r.shared)
	c.Lease = clientv3.NewLease(r.shared)
	c.Watcher = clientv3.NewWatcher(r.shared)
	k := &kubernetes.Client{Client: c}
	k.Kubernetes = k
	return k
}

// Stop implements backing.
func (r *remote) Stop() error {
	r.compactor.Stop()
	if err := r.shared.Close(); err != nil {
		return fmt.Errorf("close the connection to etcd: %w", err)
	}
	return nil
}

// check is a health check.
func (r *remote) check(ctx context.Context, prefix string) error {
	if _, err := r.shared.Get(ctx, path.Join("/", prefix, "health")); err != nil {
		return fmt.Errorf("error getting data from etcd: %w", err)
	}
	return nil
}
