// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

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
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"go.uber.org/zap"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
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

// ExternalEtcd is an etcd that others run, and in which a server stores as kube-apiserver does: under the same keys and in the
// same encoding. The fields are called as kube-apiserver's flags --etcd-servers, --etcd-prefix and so on.
type ExternalEtcd struct {
	// Servers are the URLs of its members, http://HOST:PORT or https://HOST:PORT. At least one is needed; the server goes on
	// with the others when one does not answer.
	Servers []string

	// Prefix is the part of the key space that belongs to the server, and to all servers with the same prefix. The default
	// is /registry.
	Prefix string

	// CAFile is a file with the certificates of who signs the members' certificates, in PEM. Without it, the system's count.
	CAFile string

	// CertFile and KeyFile are the certificate with which the server says who it is, and its key. There are both or none.
	CertFile, KeyFile string
}

// errors says what is wrong.
func (e *ExternalEtcd) errors() []error {
	if e == nil {
		return nil
	}
	var errs []error
	if len(e.Servers) == 0 {
		errs = append(errs, errors.New("envtest.Options.Etcd.Servers is empty: name the URLs of the members, or leave Etcd out"))
	}
	for i, server := range e.Servers {
		if u, err := url.Parse(server); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			errs = append(errs, fmt.Errorf("envtest.Options.Etcd.Servers[%d] is %q: it must be like http://127.0.0.1:2379", i, server))
		}
	}
	if (e.CertFile == "") != (e.KeyFile == "") {
		errs = append(errs, errors.New("envtest.Options.Etcd has one of CertFile and KeyFile: it needs both or none"))
	}
	return errs
}

// config is what kube-apiserver makes of the flags.
func (e *ExternalEtcd) config() storagebackend.Config {
	prefix := e.Prefix
	if prefix == "" {
		prefix = registryPrefix
	}
	config := storagebackend.NewDefaultConfig(prefix, nil)
	config.Transport.ServerList = e.Servers
	config.Transport.TrustedCAFile, config.Transport.CertFile, config.Transport.KeyFile = e.CAFile, e.CertFile, e.KeyFile
	return *config
}

// remote is an etcd that runs elsewhere. Its clients share a connection.
type remote struct {
	config    storagebackend.Config
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
	r := &remote{config: config, shared: shared}
	if err := r.check(ctx); err != nil {
		_ = shared.Close()
		return nil, fmt.Errorf("reach etcd at %v: %w", t.ServerList, errors.Join(err, refusals(t.ServerList, options.TLS)))
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

// addChecks lets /healthz, /livez and /readyz ask the etcd, as in kube-apiserver.
func (r *remote) addChecks(config *genericapiserver.Config) {
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
func (r *remote) check(ctx context.Context) error {
	if _, err := r.shared.Get(ctx, path.Join("/", r.config.Prefix, "health")); err != nil {
		return fmt.Errorf("error getting data from etcd: %w", err)
	}
	return nil
}
