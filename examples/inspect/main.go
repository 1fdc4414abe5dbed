// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Inspect runs a manager whose cache can be looked at. Its kinds are in all states that a kind can be
// in: one has a slow handler, one is forbidden, one is not served, and the watch of one brings nothing
// any more. The page is on the manager's metrics server, behind its authentication and authorization.
//
//	go run ./examples/inspect          # until it is interrupted
//	go run ./examples/inspect -for 10s # or for a while
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/tarn-dev/tarn/examples/internal/cluster"
	"github.com/tarn-dev/tarn/internal/program"
	"github.com/tarn-dev/tarn/pkg/cache"
	"github.com/tarn-dev/tarn/pkg/client"
	"github.com/tarn-dev/tarn/pkg/inspect"
)

func main() {
	klog.SetLogger(logr.Discard())
	log.SetLogger(logr.Discard())
	program.Main("inspect", func(ctx context.Context, args []string, stdout, _ io.Writer) error {
		set := flag.NewFlagSet("inspect", flag.ContinueOnError)
		kubeconfig := set.String("kubeconfig", "", "use the cluster of this `file` instead of an API server in this process")
		limit := set.Duration("for", 0, "end after this `time`; zero is when it is interrupted")
		if err := set.Parse(args); err != nil {
			return err
		}
		if set.NArg() > 0 {
			return fmt.Errorf("unexpected argument %q: see inspect -h", set.Arg(0))
		}
		if *limit > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, *limit)
			defer cancel()
		}
		return cluster.Use(run)(ctx, cluster.Flags{Kubeconfig: *kubeconfig}, stdout)
	})
}

// run runs the manager until ctx ends, which is no error.
func run(ctx context.Context, c *cluster.Cluster, out io.Writer) (err error) {
	s, err := setUp(ctx, c)
	if err != nil {
		return err
	}
	server, err := newServer()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	mgr, err := newManager(s, server)
	if err != nil {
		return err
	}
	if err := s.populate(ctx, mgr); err != nil {
		return err
	}

	running, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(running) }()
	defer func() {
		cancel()
		err = errors.Join(err, <-ended)
	}()
	token, err := s.viewerToken(ctx, c)
	if err != nil {
		return err
	}
	door, err := server.openDoor(token)
	if err != nil {
		return err
	}
	if err := server.wait(ctx, door); err != nil {
		return err
	}
	if err := server.describe(out, token, door); err != nil {
		return err
	}
	return s.write(ctx, c)
}

// newManager makes a manager with the page on its metrics server.
func newManager(s *scene, server *server) (ctrl.Manager, error) {
	mgr, err := ctrl.NewManager(s.operator, ctrl.Options{
		NewCache:  s.newCache,
		NewClient: client.New,
		Metrics: metricsserver.Options{
			BindAddress: server.address, SecureServing: true, TLSOpts: server.tls(),
			FilterProvider: filters.WithAuthenticationAndAuthorization,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("make the manager: %w", err)
	}
	page, err := inspect.New(mgr.GetCache(), inspect.Options{})
	if err != nil {
		return nil, err
	}
	return mgr, mgr.AddMetricsServerExtraHandler("/inspect/", http.StripPrefix("/inspect", page))
}

// newCache makes a cache in which each kind stands for itself.
func (s *scene) newCache(cfg *rest.Config, opts cache.Options) (cache.Cache, error) {
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		return nil, err
	}
	opts.HTTPClient = &http.Client{Transport: &network{next: transport}}
	opts.DefaultNamespaces = nil
	return cache.With(cache.Tuning{
		Name:           "inspect-example-" + s.namespace,
		TuningByObject: cache.TuningByObject{OnFailure: cache.Isolate},
		ByObject: map[crclient.Object]cache.TuningByObject{
			lake():            {Optional: ptr.To(true)},
			&corev1.Service{}: {WatchSilence: 2 * time.Second},
		},
	})(cfg, opts)
}
