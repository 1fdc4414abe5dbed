// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"go.uber.org/zap"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	storagefeature "k8s.io/apiserver/pkg/storage/feature"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/utils/clock"

	"github.com/tarn-dev/tarn/envtest/internal/etcd"
)

const (
	// dialPatience is how long kube-apiserver waits for an etcd.
	dialPatience = 20 * time.Second

	dialKeepAlive        = 30 * time.Second
	dialKeepAliveTimeout = 10 * time.Second
)

// Backing is an etcd in this process, or one shared with others.
type Backing interface {
	// Client returns a new client, whose watches no other client waits for. The caller closes it with etcd.CloseClient.
	Client() *kubernetes.Client
	// Stop ends what serves the clients, which are closed before.
	Stop() error
}

// Remote is an etcd that runs elsewhere. Its clients share a connection.
type Remote struct {
	config    storagebackend.Config
	shared    *clientv3.Client
	compactor storageCompactor
}

// storageCompactor is the compactor of etcd3, whose type has no exported name.
type storageCompactor interface {
	etcd3.Compactor
	Stop()
}

// Dial connects to the servers, and returns when they answer. Old revisions are compacted as by kube-apiserver.
func Dial(ctx context.Context, config storagebackend.Config) (*Remote, error) {
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
	r := &Remote{config: config, shared: shared}
	if err := r.check(ctx); err != nil {
		_ = shared.Close()
		return nil, fmt.Errorf("reach etcd at %v: %w", t.ServerList, errors.Join(err, refusals(t.ServerList, options.TLS)))
	}
	// It asks in the background, for as long as the connection lives.
	storagefeature.DefaultFeatureSupportChecker.CheckClient(shared.Ctx(), shared, storage.RequestWatchProgress)
	r.compactor = etcd3.NewCompactor(shared, config.CompactionInterval, clock.RealClock{}, nil)
	return r, nil
}

// Client implements Backing.
func (r *Remote) Client() *kubernetes.Client {
	c := clientv3.NewCtxClient(context.Background())
	c.KV = clientv3.NewKV(r.shared)
	c.Lease = clientv3.NewLease(r.shared)
	c.Watcher = clientv3.NewWatcher(r.shared)
	k := &kubernetes.Client{Client: c}
	k.Kubernetes = k
	return k
}

// Stop implements Backing.
func (r *Remote) Stop() error {
	r.compactor.Stop()
	if err := r.shared.Close(); err != nil {
		return fmt.Errorf("close the connection to etcd: %w", err)
	}
	return nil
}

// refusals says why connections to servers fail, which the client of etcd keeps to itself.
func refusals(servers []string, config *tls.Config) error {
	var errs []error
	dialer := &net.Dialer{Timeout: time.Second}
	for _, server := range servers {
		u, err := url.Parse(server)
		if err != nil {
			continue
		}
		var conn net.Conn
		if u.Scheme == "https" {
			conn, err = tls.DialWithDialer(dialer, "tcp", u.Host, config)
		} else {
			conn, err = dialer.Dial("tcp", u.Host)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", server, err))
			continue
		}
		_ = conn.Close()
	}
	return errors.Join(errs...)
}

// addChecks asks the etcd for as long as kube-apiserver does.
func (r *Remote) addChecks(config *genericapiserver.Config) {
	within := func(patience time.Duration) func(*http.Request) error {
		return func(req *http.Request) error {
			ctx, cancel := context.WithTimeout(req.Context(), patience)
			defer cancel()
			return r.check(ctx)
		}
	}
	config.AddHealthChecks(healthz.NamedCheck("etcd", within(r.config.HealthcheckTimeout)))
	config.AddReadyzChecks(healthz.NamedCheck("etcd-readiness", within(r.config.ReadycheckTimeout)))
}

// check is a health check.
func (r *Remote) check(ctx context.Context) error {
	if _, err := r.shared.Get(ctx, path.Join("/", r.config.Prefix, "health")); err != nil {
		return fmt.Errorf("error getting data from etcd: %w", err)
	}
	return nil
}

// AddChecks lets /healthz, /livez and /readyz ask the etcd, under the names that they have in kube-apiserver.
func AddChecks(config *genericapiserver.Config, on Backing) {
	switch on := on.(type) {
	case *Remote:
		on.addChecks(config)
	case *etcd.Server:
		available := func(*http.Request) error { return on.Available() }
		config.AddHealthChecks(healthz.NamedCheck("etcd", available))
		config.AddReadyzChecks(healthz.NamedCheck("etcd-readiness", available))
	}
}
