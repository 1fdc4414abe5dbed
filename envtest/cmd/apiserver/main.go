// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Command apiserver runs one environment of package envtest as a process of its own, for kubectl and for any program
// that reads a kubeconfig:
//
//	go run ./envtest/cmd/apiserver -kubeconfig FILE [-crds FILE-OR-FOLDER]... [-watch-cache tarn|upstream|none] [-controllers LIST]
//	    [-controller-manager LIST] [-scheduler] [-nodes N] [-etcd-servers URL,URL...]
//
// It writes the kubeconfig, prints how to use it, and runs until it is interrupted, or its terminal is closed. Then it
// removes the kubeconfig and leaves nothing behind. If it is killed, its next start removes what is left.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/envtest/components"
	"github.com/tarn-dev/tarn/envtest/controllers"
	"github.com/tarn-dev/tarn/envtest/nodes"
	"github.com/tarn-dev/tarn/internal/kubeconfig"
	"github.com/tarn-dev/tarn/internal/program"
)

// arguments are the command line.
type arguments struct {
	kubeconfig string
	crds       []string
	watchCache envtest.StorageDecorator // nil is the default
	beside     []envtest.Controller
	scheduler  bool // beside has one
	nodes      int
	etcd       envtest.ExternalEtcd // without servers, the environment has its own
	verbose    bool
}

// silent silences klog, and does so once: goroutines of an earlier run in the same process may read what it writes.
var silent = sync.OnceFunc(func() {
	klog.SetLogger(logr.Discard()) // the libraries' messages are of no use to whoever reads ours
})

func main() { program.Main("apiserver", run) }

// run is main with everything that it depends on. It returns when ctx ends, or when it cannot do its work.
func run(ctx context.Context, args []string, out, errOut io.Writer) (err error) {
	parsed, err := parse(args, errOut)
	if err != nil {
		return err
	}
	if !parsed.verbose {
		silent()
	}
	env := envtest.New(parsed.options())
	if err := env.Start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, env.Stop()) }()
	data, err := env.KubeConfig()
	if err != nil {
		return err
	}
	remove, err := kubeconfig.Publish(parsed.kubeconfig, data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	if err := usage(out, parsed.kubeconfig, env.Config().Host); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// options are the options of the environment.
func (a arguments) options() envtest.Options {
	opts := envtest.Options{CRDDirectoryPaths: a.crds, StorageDecorator: a.watchCache, Controllers: a.beside}
	if a.nodes != 0 {
		machines := nodes.New(nodes.Options{Count: a.nodes, Schedule: !a.scheduler})
		opts.Controllers = append(slices.Clone(a.beside), machines.Controller())
	}
	if len(a.etcd.Servers) > 0 {
		opts.Etcd = &a.etcd
	}
	return opts
}

// parse reads the command line and makes paths absolute: what is printed is for a shell that may be elsewhere.
func parse(args []string, errOut io.Writer) (arguments, error) {
	var a arguments
	flags := flag.NewFlagSet("apiserver", flag.ContinueOnError)
	flags.SetOutput(errOut)
	flags.StringVar(&a.kubeconfig, "kubeconfig", "", "write the kubeconfig to this `file`, which must not exist unless a killed one left it")
	flags.BoolVar(&a.verbose, "verbose", false, "print what the server's libraries log")
	flags.Func("crds", "install the CRDs in this `file or folder`; may be given several times", func(path string) error {
		a.crds = append(a.crds, path)
		return nil
	})
	flags.Func("watch-cache", "answer reads and watches with the watch cache of this `name`: tarn, upstream or none", func(name string) (err error) {
		a.watchCache, err = envtest.DecoratorNamed(name)
		return err
	})
	flags.Func("controllers", "run controllers of these `names`, separated by commas; * stands for all, -NAME leaves one out", func(names string) error {
		a.beside = append(a.beside, controllers.Named(strings.Split(names, ",")...)...)
		return nil
	})
	flags.Func("controller-manager", "run controllers of these `names` by the kube-controller-manager in the folder of KUBEBUILDER_ASSETS", func(names string) error {
		a.beside = append(a.beside, components.ControllerManager(components.Options{Controllers: strings.Split(names, ",")}))
		return nil
	})
	flags.BoolVar(&a.scheduler, "scheduler", false, "run the kube-scheduler in the folder of KUBEBUILDER_ASSETS")
	flags.IntVar(&a.nodes, "nodes", 0, "run so many `nodes` without kubelets, whose Pods run; without -scheduler, Pods are bound to them in turn")
	flags.Func("etcd-servers", "store in the etcd of these `URLs`, separated by commas, and not in one of the process", func(urls string) error {
		a.etcd.Servers = strings.Split(urls, ",")
		return nil
	})
	flags.StringVar(&a.etcd.Prefix, "etcd-prefix", "", "store below this `key` of -etcd-servers; the default is /registry")
	flags.StringVar(&a.etcd.CAFile, "etcd-cafile", "", "a `file` with the authorities that sign the certificates of -etcd-servers")
	flags.StringVar(&a.etcd.CertFile, "etcd-certfile", "", "the certificate for -etcd-servers, a `file`")
	flags.StringVar(&a.etcd.KeyFile, "etcd-keyfile", "", "the key of -etcd-certfile, a `file`")
	if err := flags.Parse(args); err != nil {
		return a, err
	}
	if a.scheduler {
		a.beside = append(a.beside, components.Scheduler(components.Options{}))
	}
	if flags.NArg() > 0 {
		return a, fmt.Errorf("unexpected argument %q: use -crds for files and folders", flags.Arg(0))
	}
	if len(a.etcd.Servers) == 0 && a.etcd.Prefix+a.etcd.CAFile+a.etcd.CertFile+a.etcd.KeyFile != "" {
		return a, errors.New("-etcd-servers is missing: the other flags that begin with -etcd- are for it")
	}
	if a.kubeconfig == "" {
		return a, errors.New("-kubeconfig is missing: name the file to write, for example -kubeconfig tarn.kubeconfig")
	}
	path, err := filepath.Abs(a.kubeconfig)
	if err != nil {
		return a, fmt.Errorf("find the folder of -kubeconfig: %w", err)
	}
	a.kubeconfig = path
	return a, nil
}

// usage tells how to reach the server.
func usage(out io.Writer, kubeconfig, host string) error {
	_, err := fmt.Fprintf(out, `API server at %[2]s, until it is interrupted (Ctrl-C).

kubectl:
  export KUBECONFIG=%[1]s
  kubectl get namespaces

Suites that are written for controller-runtime's envtest:
  USE_EXISTING_CLUSTER=true KUBECONFIG=%[1]s go test ./...

Tarn's own suite, with this server as the one that is asked:
  TARN_ORACLE_KUBECONFIG=%[1]s go test ./envtest
`, kubeconfig, host)
	if err != nil {
		return fmt.Errorf("print how to use the server: %w", err)
	}
	return nil
}
