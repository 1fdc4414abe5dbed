// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"

	"github.com/spf13/cobra"
	genericapiserver "k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/version/verflag"

	"github.com/tarn-dev/tarn/envtest/internal/commandline"
	"github.com/tarn-dev/tarn/envtest/internal/flags"
	"github.com/tarn-dev/tarn/envtest/internal/server"
)

// APIServerCommand returns the command line of kube-apiserver, with the server of this package behind it. The server
// stores in the etcd of --etcd-servers, and accepts only the credentials that the flags allow. Run the command with
// k8s.io/component-base/cli, and once in a process, because it sets the feature gates and the logging of the process.
//
// Most flags are honoured. Some have no effect, and a line on stderr says so. Some are an error, because a test that
// gives one would go wrong. A flag that kube-apiserver does not know is an error, as in kube-apiserver.
func APIServerCommand() (*cobra.Command, error) {
	f, err := flags.New()
	if err != nil {
		return nil, err
	}
	cmd := &cobra.Command{
		Use: "kube-apiserver",
		Long: `The Kubernetes API server of Tarn, for tests. It takes the flags of kube-apiserver; the help of a
flag without effect says so.`,
		SilenceUsage: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("%q does not take any arguments, got %q", cmd.CommandPath(), args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Lookup("version").Value.String() == "true" {
				fmt.Fprintln(cmd.OutOrStdout(), "Kubernetes", server.Version())
				return nil
			}
			verflag.PrintAndExitIfRequested()
			return serveFlags(genericapiserver.SetupSignalContext(), cmd, f, cmd.ErrOrStderr())
		},
	}
	sets := f.Sets()
	verflag.AddFlags(sets.FlagSet("global"))
	globalflag.AddGlobalFlags(sets.FlagSet("global"), cmd.Name(), logs.SkipLoggingConfigurationFlags())
	for _, set := range sets.FlagSets {
		cmd.Flags().AddFlagSet(set)
	}
	cliflag.SetUsageAndHelpFunc(cmd, *sets, 0) // lines of any length
	return cmd, nil
}

// serveFlags runs the server that the flags describe until ctx ends.
func serveFlags(ctx context.Context, cmd *cobra.Command, f *flags.Flags, errOut io.Writer) error {
	p := commandline.New(f, errOut)
	notices, err := f.Check(cmd.Flags())
	if err != nil {
		return err
	}
	if err := logsapi.ValidateAndApply(f.Logs, utilfeature.DefaultFeatureGate); err != nil {
		return err
	}
	f.Metrics.Apply()
	for _, notice := range notices {
		p.Tell(notice)
	}
	opts := Options{process: p}
	if !f.Etcd.EnableWatchCache {
		opts.StorageDecorator = Undecorated
	}
	env := New(opts)
	// Nearly all that a start allocates stays: to look for garbage meanwhile takes half of its time.
	collect := debug.SetGCPercent(-1)
	err = env.Start(ctx)
	debug.SetGCPercent(collect)
	if err != nil {
		if ctx.Err() != nil {
			return nil // it was told to end
		}
		return err
	}
	<-ctx.Done()
	return env.Stop()
}
