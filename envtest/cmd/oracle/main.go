// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Command oracle runs the real kube-apiserver and etcd until it is interrupted, so that test suites can ask the
// authority whether a behaviour is Kubernetes' own:
//
//	eval "$(go run ./envtest/cmd/assets)"
//	go run ./envtest/cmd/oracle -kubeconfig FILE
//
// FILE appears, readable by its owner only, once the server answers and has made the objects that every
// cluster has; it is removed at the end.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/tarn-dev/tarn/internal/kubeconfig"
	"github.com/tarn-dev/tarn/internal/program"
)

// assetsVariable names the folder of the binaries; controller-runtime's envtest reads it.
const assetsVariable = "KUBEBUILDER_ASSETS"

func main() { program.Main("oracle", run) }

// run serves until ctx ends: args are the arguments after the program's name.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("oracle", flag.ContinueOnError)
	flags.SetOutput(stderr)
	file := flags.String("kubeconfig", "", "write the server's kubeconfig to this `file`, which must not exist unless a killed one left it")
	plugins := flags.String("enable-admission-plugins", "", "kube-apiserver's `names` of further admission plugins, with commas between")
	gates := flags.String("feature-gates", "", "kube-apiserver's feature `gates`, such as A=true,B=false")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *file == "" || flags.NArg() > 0 {
		return errors.New("name the file to write with -kubeconfig FILE, and no arguments")
	}
	if os.Getenv(assetsVariable) == "" {
		return fmt.Errorf(`%s is not set: run eval "$(go run ./envtest/cmd/assets)" first`, assetsVariable)
	}
	log.SetLogger(logr.Discard())
	servers := new(envtest.Environment)
	if *plugins != "" {
		servers.ControlPlane.GetAPIServer().Configure().Append("enable-admission-plugins", *plugins)
	}
	if *gates != "" {
		servers.ControlPlane.GetAPIServer().Configure().Append("feature-gates", *gates)
	}
	return serve(ctx, servers, *file, stdout)
}

// serve starts the servers, publishes the kubeconfig, and stops them when ctx ends.
func serve(ctx context.Context, servers *envtest.Environment, file string, stdout io.Writer) (err error) {
	config, err := servers.Start()
	// A start that failed half-way leaves servers behind, so they are stopped in any case.
	defer func() { err = errors.Join(err, servers.Stop()) }()
	if err != nil {
		return fmt.Errorf("start the binaries in %s: %w", os.Getenv(assetsVariable), err)
	}
	if err := waitForBootstrap(ctx, config); err != nil {
		return err
	}
	remove, err := kubeconfig.Publish(file, servers.KubeConfig)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	_, _ = fmt.Fprintf(stdout, "kube-apiserver answers at %s; export KUBECONFIG=%s; interrupt to stop\n", config.Host, file)
	<-ctx.Done()
	return nil
}
