// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"context"
	"fmt"
	"os"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/types"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"go.etcd.io/etcd/server/v3/config"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/features"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

const (
	etcdMember = "tarn"

	// nominalPeerURL names the only member of the cluster. Nothing listens there and nothing dials it.
	nominalPeerURL = "http://127.0.0.1:2380"

	// Ten milliseconds make the single member leader at once, and are still coarse enough for a loaded machine.
	tickMilliseconds = 10
	electionTicks    = 5

	// A watch cache learns from progress notifications that it is fresh; etcd's default is ten minutes.
	progressInterval = 5 * time.Second

	// kube-apiserver compacts every five minutes: old resource versions expire here as they do there.
	compactionRetention = 5 * time.Minute
)

// etcd is a single etcd member in this process. It has no listener: it is reached by function calls alone, so that no
// other process of the machine can get at the data, and no port can be taken.
type etcd struct {
	dir    string
	server *etcdserver.EtcdServer
}

// startEtcd starts a member on a new folder below parent (the system's folder for temporary files if parent is empty)
// and returns when it takes writes. The caller owns the member and has to call stop.
func startEtcd(ctx context.Context, parent string) (_ *etcd, err error) {
	dir, err := os.MkdirTemp(parent, "tarn-etcd-") // MkdirTemp makes it 0700
	if err != nil {
		return nil, fmt.Errorf("make a folder for etcd: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(dir) // the first error is the one to report
		}
	}()
	cfg, err := etcdConfig(dir)
	if err != nil {
		return nil, err
	}
	server, err := etcdserver.NewServer(cfg)
	if err != nil {
		return nil, fmt.Errorf("create etcd in %s: %w", dir, err)
	}
	server.Start()
	select {
	case <-server.ReadyNotify():
		return &etcd{dir: dir, server: server}, nil
	case <-ctx.Done():
		server.HardStop()
		return nil, fmt.Errorf("wait for etcd in %s: %w", dir, context.Cause(ctx))
	}
}

// stop ends the member and removes its folder. Clients have to be closed before.
func (e *etcd) stop() error {
	e.server.HardStop()
	if err := os.RemoveAll(e.dir); err != nil {
		return fmt.Errorf("remove etcd's folder: %w", err)
	}
	return nil
}

// client returns a new client of the member. Each store gets one of its own: clients of one process share nothing but
// the member, so a store's watch progress never waits for another store's watches. The caller closes it.
func (e *etcd) client() *kubernetes.Client {
	c := &kubernetes.Client{Client: v3client.New(e.server)}
	c.Kubernetes = c
	return c
}

// closeClient ends the client's watches. An in-process client has no connection to lose, so that its only error is that
// it was closed.
func closeClient(c *kubernetes.Client) {
	_ = c.Close()
}

// etcdConfig is embed's default configuration, made faster where a test does not need durability.
func etcdConfig(dir string) (config.ServerConfig, error) {
	peers, err := types.NewURLs([]string{nominalPeerURL})
	if err != nil {
		return config.ServerConfig{}, fmt.Errorf("name the etcd member: %w", err)
	}
	logger := etcdLogger()
	defaults := embed.NewConfig()
	return config.ServerConfig{
		Name:                        etcdMember,
		DataDir:                     dir,
		PeerURLs:                    peers,
		ClientURLs:                  peers,
		InitialPeerURLsMap:          types.URLsMap{etcdMember: peers},
		InitialClusterToken:         etcdMember,
		NewCluster:                  true,
		TickMs:                      tickMilliseconds,
		ElectionTicks:               electionTicks,
		InitialElectionTickAdvance:  true,
		PreVote:                     true,
		UnsafeNoFsync:               true,
		SnapshotCount:               defaults.SnapshotCount,
		SnapshotCatchUpEntries:      defaults.SnapshotCatchUpEntries,
		MaxSnapFiles:                defaults.MaxSnapFiles,
		MaxWALFiles:                 defaults.MaxWalFiles,
		MaxTxnOps:                   defaults.MaxTxnOps,
		MaxRequestBytes:             defaults.MaxRequestBytes,
		AutoCompactionMode:          embed.CompactorModePeriodic,
		AutoCompactionRetention:     compactionRetention,
		AuthToken:                   defaults.AuthToken,
		BcryptCost:                  defaults.BcryptCost,
		TokenTTL:                    defaults.AuthTokenTTL,
		StrictReconfigCheck:         defaults.StrictReconfigCheck,
		WarningApplyDuration:        defaults.WarningApplyDuration,
		WarningUnaryRequestDuration: defaults.WarningUnaryRequestDuration,
		WatchProgressNotifyInterval: progressInterval,
		DowngradeCheckTime:          defaults.DowngradeCheckTime,
		MaxLearners:                 defaults.MaxLearners,
		V2Deprecation:               config.V2DeprDefault,
		ServerFeatureGate:           features.NewDefaultServerFeatureGate(etcdMember, logger),
		Metrics:                     defaults.Metrics,
		Logger:                      logger,
	}, nil
}

// etcdLogger is silent, except for what ends the process: a reader has to learn why it died.
func etcdLogger() *zap.Logger {
	encoder := zapcore.NewConsoleEncoder(zap.NewProductionEncoderConfig())
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(os.Stderr), zapcore.PanicLevel))
}

// progressClient tells k8s.io/apiserver which etcd it works with. apiserver asks an endpoint for its version to learn
// whether watch progress can be requested, and without an answer its watch cache cannot serve consistent reads; an
// in-process client has no endpoints to ask.
type progressClient struct{ version string }

// Endpoints returns the name under which apiserver remembers the answer.
func (progressClient) Endpoints() []string { return []string{"tarn-in-process"} }

// Status returns the version of the etcd that is linked into this process.
func (c progressClient) Status(context.Context, string) (*clientv3.StatusResponse, error) {
	return &clientv3.StatusResponse{Version: c.version}, nil
}
